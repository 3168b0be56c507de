# shellcheck shell=sh
log() { echo "navarch: $*" >&2; }

fail() {
  log "the agent is not installed: $*"
  report failed 0 0 "the agent is not installed: $*"
  exit 1
}

# Sets python and abi: a Python for which the control plane has compiled code, or the first that is
# new enough.
find_python() {
  python='' abi='' seen=''
  for name in python3 python3.15 python3.14 python3.13 python3.12 python3.11; do
    path=$(command -v "$name") || continue
    found=$("$path" -c 'import sys, sysconfig
print("%d.%d.%d" % sys.version_info[:3], sysconfig.get_config_var("SOABI") * (sys.version_info >= (3, 11)))') ||
      continue
    seen="$seen${seen:+, }$name is ${found%% *}"
    found=${found#* }
    [ -n "$found" ] || continue
    case " $AGENT_ABIS " in *" $found "*)
      python=$path abi=$found
      return
      ;;
    esac
    [ -n "$python" ] || { python=$path abi=$found; }
  done
  [ -n "$python" ] || fail "it needs Python 3.11 or newer, and on this machine ${seen:-there is no python3};" \
    "boot an image that has one, such as Ubuntu 24.04, or install one with a setup command"
}

# Downloads URL $1 to file $2, whose SHA-256 must be $3. What is lost or cut off is tried again, and
# nothing with another hash is ever used.
fetch() {
  attempt=1 wrong=0 pause=1
  while :; do
    rm -f "$2"
    if problem=$("$python" -c 'import sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=60) as answer, open(sys.argv[2], "wb") as file:
    file.write(answer.read())' "$1" "$2" 2>&1); then
      actual=$(sha256sum < "$2")
      [ "${actual%% *}" != "$3" ] || return 0
      rm -f "$2"
      problem="its SHA-256 is not $3 but ${actual%% *}" wrong=$((wrong + 1))
    fi
    problem=$(echo "$problem" | tail -n 1)
    { [ "$attempt" -lt 20 ] && [ "$wrong" -lt 5 ]; } ||
      fail "$1: $problem (attempt $attempt, the last)"
    log "$1: $problem; next attempt in $pause s"
    sleep "$pause"
    attempt=$((attempt + 1)) pause=$((pause * 2))
    [ "$pause" -le 30 ] || pause=30
  done
}

# Completes the unpacked agent in $1 for a Python of which the control plane has no compiled code.
add_compiled_code() {
  wheel=$1/wheels/$abi.whl
  if [ ! -e "$wheel" ]; then
    listed=$(grep "^$abi " "$1/wheels.txt" 2> /dev/null) || fail "there is no compiled code for $abi;" \
      "add its wheel of msgspec to the folder server.agent_wheels of the control plane," \
      "or set server.agent_index to let machines download it"
    mkdir -p "$1/wheels"
    listed=${listed#* }
    fetch "${listed#* }" "$wheel" "${listed%% *}"
  fi
  rm -rf "$1"/lib/msgspec "$1"/lib/msgspec-*
  "$python" -m zipfile -e "$wheel" "$1/lib"
}

# Installs the agent that the control plane serves into /opt/navarch.
install_agent() {
  find_python
  home=/opt/navarch/agent-$AGENT_SHA256
  rm -rf "$home" "$home.new"
  mkdir -p "$home.new" /opt/navarch/bin
  fetch "$AGENT_URL" "$home.new/agent.tar.gz" "$AGENT_SHA256"
  report fetched
  "$python" -W ignore -m tarfile -e "$home.new/agent.tar.gz" "$home.new"
  rm "$home.new/agent.tar.gz"
  [ -e "$home.new/lib/msgspec/_core.$abi.so" ] || add_compiled_code "$home.new"
  problem=$(PYTHONPATH=$home.new/lib PYTHONSAFEPATH=1 "$python" -m navarch.cli agent --help 2>&1) ||
    fail "$python cannot run it: $(echo "$problem" | tail -n 1)"
  mv "$home.new" "$home"
  cat > /opt/navarch/bin/navarch.new <<END
#!/bin/sh
PYTHONPATH=$home/lib PYTHONSAFEPATH=1 exec $python -m navarch.cli "\$@"
END
  chmod 755 /opt/navarch/bin/navarch.new
  mv /opt/navarch/bin/navarch.new /opt/navarch/bin/navarch
}
