#!/usr/bin/env bash
# Runs a command on a host "launcher" that is connected with the hosts node1, node2 and node3, all of
# which are network namespaces of this machine: on_hosts.sh COMMAND... The command finds in $HOSTS the
# file "hostfile" and the program "rsh", which runs a command on a host: rsh HOST COMMAND... All
# processes end with the command. Returns 77 if this machine forbids namespaces.
set -eu
skip() { echo "on_hosts.sh: skipped: $1" >&2; exit 77; }
if [ "${1:-}" != --inside ]; then
  for tool in unshare nsenter ip; do
    command -v $tool >/dev/null || skip "there is no program $tool (Debian: util-linux, iproute2)"
  done
  spaces=(--net --mount --uts --pid --fork --kill-child --mount-proc)
  [ "$(id -u)" -eq 0 ] || spaces+=(--map-root-user)
  unshare "${spaces[@]}" true || skip "this machine forbids namespaces"
  HOSTS=$(mktemp -d)
  export HOSTS
  trap 'rm -rf "$HOSTS"' EXIT
  unshare "${spaces[@]}" "$0" --inside "$@"
  exit
fi
shift
connect() {
  set -e
  mount -t tmpfs none /run
  mkdir /run/netns
  hostname launcher
  ip link set lo up
  ip link add bridge type bridge
  ip addr add 10.77.0.254/24 dev bridge
  ip link set bridge up
  printf '127.0.0.1 localhost\n10.77.0.254 launcher\n' >"$HOSTS/names"
  for i in 1 2 3; do
    ip netns add node$i
    ip link add to-node$i type veth peer name eth0 netns node$i
    ip link set to-node$i master bridge up
    ip -n node$i addr add 10.77.0.$i/24 dev eth0
    ip -n node$i link set eth0 up
    ip -n node$i link set lo up
    echo "10.77.0.$i node$i" >>"$HOSTS/names"
    echo "node$i slots=2" >>"$HOSTS/hostfile"
  done
  mount --bind "$HOSTS/names" /etc/hosts
}
set +e
(connect)
status=$?
set -e
[ $status -eq 0 ] || skip "this machine forbids bridges or mounts"
cat >"$HOSTS/rsh" <<'END'
#!/bin/sh
# As ssh does, joins the words of the command and gives them to a shell.
host=$1
shift
exec nsenter --net=/run/netns/"$host" unshare --uts sh -c "hostname $host; $*"
END
chmod +x "$HOSTS/rsh"
"$@"
