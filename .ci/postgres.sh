# Sourced by .ci/run: start_postgres starts a throw-away server on loopback and exports TEST_POSTGRES_URL.

# The folder that holds initdb and pg_ctl, or nothing.
postgres_bin() {
  local folder
  for folder in /usr/lib/postgresql/*/bin "$(dirname "$(command -v initdb || echo /nowhere/initdb)")"; do
    if [ -x "$folder/initdb" ] && [ -x "$folder/pg_ctl" ]; then
      echo "$folder"
      return
    fi
  done
}

start_postgres() {
  if [ -n "${TEST_POSTGRES_URL:-}" ]; then
    echo "using the server of TEST_POSTGRES_URL"
    return
  fi
  if [ -z "$(postgres_bin)" ]; then
    # The Debian package would start a cluster of its own; only the programs are wanted.
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends postgresql >/dev/null
  fi
  local bin port
  bin=$(postgres_bin)
  port=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  POSTGRES_FOLDER=$(mktemp -d)
  # PostgreSQL refuses to run as root, so root lends the folder to another user.
  POSTGRES_AS=()
  if [ "$(id -u)" = 0 ]; then
    local user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    chown "$user" "$POSTGRES_FOLDER"
    POSTGRES_AS=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
  fi
  POSTGRES_CTL=$bin/pg_ctl
  (
    cd "$POSTGRES_FOLDER"
    HOME=$POSTGRES_FOLDER "${POSTGRES_AS[@]}" "$bin/initdb" -D "$POSTGRES_FOLDER/data" -U loopsmith -A trust \
      -E UTF8 --no-locale >"/dev/null"
    HOME=$POSTGRES_FOLDER "${POSTGRES_AS[@]}" "$POSTGRES_CTL" -D "$POSTGRES_FOLDER/data" -w -l "$POSTGRES_FOLDER/log" \
      -o "-h 127.0.0.1 -p $port -k '' -c fsync=off" start >/dev/null
  )
  trap stop_postgres EXIT
  export TEST_POSTGRES_URL="postgresql+psycopg://loopsmith@127.0.0.1:$port/postgres"
  echo "started one: $TEST_POSTGRES_URL"
}

stop_postgres() {
  (cd "$POSTGRES_FOLDER" && "${POSTGRES_AS[@]}" "$POSTGRES_CTL" -D "$POSTGRES_FOLDER/data" -m immediate stop >/dev/null) || true
  rm -rf "$POSTGRES_FOLDER"
}
