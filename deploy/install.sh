#!/bin/sh
# Installs an agent or a control plane, and its systemd unit if asked. Running it again changes
# nothing that is right. Each version gets its own folder beside the prefix, which is a link to the
# current one: an interrupted upgrade leaves the old version as it was.
set -eu

VERSION=0.1.0
# "SHA256  FILE" for each file of the release; scripts/build-release writes the lines.
HASHES=''

usage() {
  cat <<END
usage: install.sh [OPTIONS] agent|control-plane
       install.sh [--prefix DIR] --uninstall

  --unit          also install the systemd unit; needs root
  --prefix DIR    where to install  [default: /opt/navarch]
  --from PLACE    URL or folder of the files of release $VERSION
  --python FILE   the Python to use: 3.11 or newer, with venv
  --uninstall     remove programs and units; settings and state stay

Packages come from the index that pip is configured for (PIP_INDEX_URL, PIP_FIND_LINKS). Every file
has to have the hash that this script or the release states.
END
}

say() { echo "navarch: $*" >&2; }

fail() {
  say "$*"
  exit 1
}

misuse() {
  say "$*"
  usage >&2
  exit 2
}

main() {
  role='' unit='' uninstall='' prefix=/opt/navarch python=''
  from=https://github.com/NavarchProject/navarch/releases/download/v$VERSION
  while [ $# -gt 0 ]; do
    case $1 in
      agent | control-plane) role=$1 ;;
      --unit) unit=yes ;;
      --uninstall) uninstall=yes ;;
      --prefix | --from | --python)
        [ $# -gt 1 ] || misuse "$1 needs a value"
        case $1 in --prefix) prefix=$2 ;; --from) from=$2 ;; *) python=$2 ;; esac
        shift
        ;;
      -h | --help)
        usage
        exit
        ;;
      *) misuse "unknown argument: $1" ;;
    esac
    shift
  done
  case $prefix in /?*) ;; *) misuse "--prefix must be an absolute path, not '$prefix'" ;; esac
  prefix=${prefix%/}
  if [ -e "$prefix" ] && [ ! -L "$prefix" ]; then
    fail "$prefix exists and is not an installation of this script; remove it, or choose another --prefix"
  fi
  units=/etc/systemd/system
  if [ -n "$uninstall" ]; then
    remove
    exit
  fi
  [ -n "$role" ] || misuse 'agent or control-plane?'
  [ -n "$HASHES" ] || fail 'this copy has no hashes; take install.sh of a release, or run scripts/build-release'
  if [ -n "$unit" ]; then
    [ "$(id -u)" = 0 ] || fail '--unit needs root'
    command -v systemctl >/dev/null || fail '--unit needs systemd, and there is no systemctl here'
  fi
  install_program
  [ -z "$unit" ] || install_unit
}

install_program() {
  umask 022
  current=$(readlink "$prefix" || true)
  # The packages of the control plane include those of the agent: a machine with both keeps them.
  packages=$role
  case $current in *-control-plane) packages=control-plane ;; esac
  release=$(echo "$HASHES" | sha256sum | cut -c 1-8)
  target=$prefix-$VERSION-$release-$packages
  if [ "$current" = "$target" ]; then
    say "$VERSION is installed in $prefix"
    return
  fi
  choose_python
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for file in "navarch-$VERSION-py3-none-any.whl" "$packages.txt"; do fetch "$file"; done

  say "installing $VERSION ($packages) into $target"
  rm -rf "$target"
  "$python" -m venv "$target"
  pip="$target/bin/python -m pip install --quiet --disable-pip-version-check --no-input"
  $pip --require-hashes --only-binary=:all: --no-deps --requirement "$work/$packages.txt"
  $pip --no-deps --no-index "$work/navarch-$VERSION-py3-none-any.whl"
  found=$("$target/bin/navarch" --version)
  [ "$found" = "navarch version $VERSION" ] || fail "the installed program is '$found', not $VERSION"

  # Renaming a link replaces the old one at once: there is always a program.
  ln -sfn "$target" "$prefix.new"
  mv -T "$prefix.new" "$prefix"
  for old in "$prefix"-[0-9]*-agent "$prefix"-[0-9]*-control-plane; do
    # The version before stays, and every other that a process still runs from.
    case $old in "$target" | "$current") continue ;; esac
    grep -qs "$old/" /proc/[0-9]*/maps || remove_release "$old"
  done
}

# Removes a folder if it is a virtual environment.
remove_release() { [ ! -e "$1/pyvenv.cfg" ] || rm -rf "$1"; }

choose_python() {
  for each in ${python:-python3 python3.14 python3.13 python3.12 python3.11}; do
    python=$(command -v "$each") || continue
    "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return
  done
  fail 'Python 3.11 or newer with venv is required (Debian, Ubuntu: python3-venv); name one with --python'
}

fetch() {
  case $from in
    http://* | https://*)
      "$python" - "$from/$1" "$work/$1" <<'END' || fail "$from/$1 cannot be downloaded; state another place with --from"
import sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=60) as answer, open(sys.argv[2], "wb") as file:
        file.write(answer.read())
except OSError as error:
    sys.exit(f"navarch: {error}")
END
      ;;
    *) cp "$from/$1" "$work/$1" || fail "there is no release $VERSION in $from" ;;
  esac
  expected=$(echo "$HASHES" | sed -n "s/  $1\$//p")
  actual=$(sha256sum <"$work/$1")
  [ -n "$expected" ] && [ "${actual%% *}" = "$expected" ] ||
    fail "$1 in $from is not the file of release $VERSION: its SHA-256 is ${actual%% *}, not ${expected:-known}"
}

install_unit() {
  app=$(echo "$prefix"/lib/python3*/site-packages/navarch/app)
  name=navarch-agent settings=/etc/navarch/agent.env
  if [ "$role" = control-plane ]; then name=navarch settings=/etc/navarch/navarch.yaml; fi
  install -d -m 755 /etc/navarch
  if [ "$role" = control-plane ]; then
    id -u navarch >/dev/null 2>&1 ||
      useradd --system --user-group --no-create-home --home-dir /var/lib/navarch --shell /usr/sbin/nologin navarch
    runuser -u navarch -- "$prefix/bin/navarch" --version >/dev/null ||
      fail "the user navarch cannot run $prefix/bin/navarch; install with a Python that all users can run (--python)"
    write_settings 640 navarch '# Replace the simulated cloud by your providers: docs/reference/configuration.md' \
      'providers:' '  simulated: {type: fake}'
  else
    write_settings 600 root 'NAVARCH_SERVER="http://localhost:50051"'
  fi
  sed "s|/opt/navarch/|$prefix/|" "$app/$name.service" >"$units/$name.service"
  if_booted daemon-reload
  say "edit $settings, then run: systemctl enable --now $name (after an upgrade: systemctl restart $name)"
}

# Runs systemctl, unless this is an image that is being built.
if_booted() { [ ! -d /run/systemd/system ] || systemctl "$@"; }

# Writes the lines to the file of settings with mode $1 and group $2, unless it exists.
write_settings() {
  mode=$1 group=$2
  shift 2
  [ -e "$settings" ] || printf '%s\n' "$@" | install -m "$mode" -g "$group" /dev/stdin "$settings"
}

remove() {
  for name in navarch navarch-agent; do
    if grep -qs "^ExecStart=$prefix/" "$units/$name.service"; then
      if_booted stop "$name"
      systemctl --quiet disable "$name"
      rm "$units/$name.service"
      if_booted daemon-reload
    fi
  done
  rm -f "$prefix"
  for each in "$prefix"-[0-9]*-agent "$prefix"-[0-9]*-control-plane; do
    remove_release "$each"
  done
  say 'uninstalled. Settings (/etc/navarch) and state (/var/lib/navarch, /var/lib/navarch-agent) were kept'
}

main "$@"
