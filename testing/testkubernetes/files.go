package testkubernetes

import (
	"fmt"
	"os"
	"path/filepath"
)

// Where the node's own programs listen, all in a network of its own.
const (
	apiPort     = "6443"
	etcdPort    = "2379"
	kubeletPort = "10250"
	nodeIP      = "10.244.6.1"
	podNetwork  = "10.244.7.0/24"
)

// writeFiles writes what the node's programs are configured by.
func (n *Node) writeFiles() error {
	for _, d := range []string{"cni", "certs", "plugins", "volumes", "log"} {
		if err := os.MkdirAll(filepath.Join(n.dir, d), 0o755); err != nil {
			return err
		}
	}
	cni := "/usr/lib/cni"
	if _, err := os.Stat(cni + "/bridge"); err != nil {
		cni = "/opt/cni/bin"
	}
	for name, text := range map[string]string{
		"tokens.csv": n.token + ",admin,admin,system:masters\n",
		"kubeconfig": fmt.Sprintf(kubeconfig, "https://127.0.0.1:"+apiPort, "certificate-authority: "+n.dir+"/certs/apiserver.crt", n.token),
		"cni/10-node.conflist": `{"cniVersion": "0.4.0", "name": "node", "plugins": [{"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
 "ipam": {"type": "host-local", "dataDir": "` + n.dir + `/addresses", "ranges": [[{"subnet": "` + podNetwork + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`,
		"containerd.toml": fmt.Sprintf(containerd, n.dir, cni),
		"kubelet.yaml":    fmt.Sprintf(kubelet, n.dir, n.cgroup),
		"init.sh":         initScript,
	} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig takes the server, how its certificate is known, and the token.
const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: node
  cluster: {server: %q, %s}
users:
- name: admin
  user: {token: %q}
contexts:
- name: node
  context: {cluster: node, user: admin, namespace: ` + Namespace + `}
current-context: node
`

// containerd takes the node's folder and where the network plugins are. Its scores for the OOM killer are not touched: tests may run without
// the right to.
const containerd = `version = 2
root = "%[1]s/containerd/root"
state = "%[1]s/containerd/state"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "%[1]s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[2]s"
    conf_dir = "%[1]s/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`

// kubelet takes the node's folder and its control group.
const kubelet = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: ` + kubeletPort + `
readOnlyPort: 0
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://%[1]s/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: %[2]s
enforceNodeAllocatable: [pods]
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, imagefs.available: 1%%, nodefs.inodesFree: 1%%}
podLogsDir: %[1]s/podlogs
volumePluginDir: %[1]s/plugins
resolvConf: /etc/resolv.conf
eventRecordQPS: 0
kubeAPIQPS: 500
kubeAPIBurst: 1000
`

// initScript is process 1 of the node, with its folder, its program and its control group as arguments and the listener as descriptor 3. All
// else it starts ends with it.
const initScript = `
dir=$1 node=$2
ip link set lo up
# The kubelet reports no address, and the API server reaches no kubelet, on a machine without an interface beside this one.
ip link add node0 type bridge && ip addr add ` + nodeIP + `/32 dev node0 && ip link set node0 up && ip route add default dev node0
# Folders that containers' programs share on a machine, here the node's own. What the provisioner of volumes makes lies in the node's folder.
mkdir -p /run/containerd /run/netns /var/lib/kubelet /var/lib/cni /var/log/containers /tmp/hostpath_pv
for d in /run/containerd /run/netns /var/lib/kubelet /var/lib/cni /var/log/containers; do mount -t tmpfs tmpfs $d; done
mount --bind "$dir/volumes" /tmp/hostpath_pv
mount --make-rshared /
# The kubelet sets these for the whole machine: it is shown files that have its values already.
while read -r name value; do
  echo "$value" >"$dir/${name##*/}"
  mount --bind "$dir/${name##*/}" "/proc/sys/$name"
done <<END
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END
cd "$dir"
# Volumes are for everybody, as those of the provisioners that people run on one node: what is mounted from a folder gets no fsGroup.
while :; do chmod 0777 "$dir"/volumes/*; sleep 0.05; done 2>/dev/null 3<&- &
start() { name=$1; shift; "$@" >>"log/$name" 2>&1 3<&- & }
apiserver() {
  start apiserver "$node" apiserver --etcd-servers=http://127.0.0.1:` + etcdPort + ` --bind-address=127.0.0.1 --secure-port=` + apiPort + ` \
    --advertise-address=10.244.7.1 --endpoint-reconciler-type=none --cert-dir="$dir/certs" --service-cluster-ip-range=10.96.0.0/24 \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$dir/certs/sa.key" \
    --service-account-signing-key-file="$dir/certs/sa.key" --token-auth-file="$dir/tokens.csv" --authorization-mode=RBAC \
    --kubelet-preferred-address-types=Hostname --enable-priority-and-fairness=false --max-requests-inflight=0 \
    --max-mutating-requests-inflight=0
  api=$!
}
"$node" forward 127.0.0.1:` + apiPort + ` >>log/forward 2>&1 &
exec 3<&-
start containerd containerd -c "$dir/containerd.toml"
start etcd "$node" etcd --data-dir "$dir/etcd" --unsafe-no-fsync --listen-client-urls http://127.0.0.1:` + etcdPort + ` \
  --advertise-client-urls http://127.0.0.1:` + etcdPort + ` --listen-peer-urls http://127.0.0.1:0 --log-level warn
apiserver
ready() { "$node" kubectl --kubeconfig "$dir/kubeconfig" get --raw /readyz >/dev/null 2>&1; }
until ready; do sleep 0.2; done
start controllers "$node" controllers --kubeconfig="$dir/kubeconfig" --leader-elect=false --service-account-private-key-file="$dir/certs/sa.key" \
  --root-ca-file="$dir/certs/apiserver.crt" --enable-hostpath-provisioner=true --flex-volume-plugin-dir="$dir/plugins" \
  --bind-address=127.0.0.1 --cert-dir="$dir/certs/controllers" --kube-api-qps=500 --kube-api-burst=1000
start scheduler "$node" scheduler --kubeconfig="$dir/kubeconfig" --leader-elect=false --bind-address=127.0.0.1 --cert-dir="$dir/certs/scheduler"
start kubelet "$node" kubelet --config="$dir/kubelet.yaml" --kubeconfig="$dir/kubeconfig" --hostname-override=localhost --node-ip=` + nodeIP + ` --root-dir="$dir/kubelet" \
  --cert-dir="$dir/certs/kubelet"
# A line restarts the API server: what is open to it is cut, and the rest goes on.
while read -r _; do
  kill -KILL "$api"
  wait "$api" 2>/dev/null
  apiserver
done
`

// keeperScript keeps the node of its arguments until its standard input ends, and then removes everything of it.
const keeperScript = `
dir=$1 node=$2 group=$3
for c in /sys/fs/cgroup /sys/fs/cgroup/*; do
  if [ "$c" = /sys/fs/cgroup ]; then
    [ -f $c/cgroup.controllers ] || continue
    for k in $(cat $c/cgroup.controllers); do echo "+$k" >$c/cgroup.subtree_control; done 2>/dev/null
  else
    [ -f "$c/tasks" ] || continue
  fi
  mkdir -p "$c$group"
  for f in cpuset.cpus cpuset.mems; do [ -f "$c/tasks" ] && [ -f "$c/$f" ] && cat "$c/$f" >"$c$group/$f"; done
done
openssl genrsa -out "$dir/certs/sa.key" 2048 2>/dev/null
nice -n 5 unshare --mount --pid --net --fork --mount-proc --kill-child bash "$dir/init.sh" "$dir" "$node" >"$dir/log/init" 2>&1 0<"$dir/lines" &
pid=$!
exec 3<&-
cat >"$dir/lines"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
for i in $(seq 50); do
  for c in /sys/fs/cgroup /sys/fs/cgroup/*; do [ -d "$c$group" ] && find "$c$group" -depth -type d -exec rmdir {} \; 2>/dev/null; done
  ls -d /sys/fs/cgroup$group /sys/fs/cgroup/*$group >/dev/null 2>&1 || break
  sleep 0.1
done
rm -rf --one-file-system "$dir"
`
