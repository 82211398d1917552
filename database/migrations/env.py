"""What alembic runs: migrations go over the connection that ``SQLDatabase`` hands in, inside its transaction."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine

from database.schema import Base

connection = context.config.attributes.get("connection")
if connection is None:  # called through alembic's own command line
    connection = create_engine(context.config.get_main_option("sqlalchemy.url")).connect()

context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
