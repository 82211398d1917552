"""Schema versions of SQL tuning databases, as alembic migrations; applied when a database is opened."""
