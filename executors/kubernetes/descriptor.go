package kubernetes

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
)

// mostMinutes bounds what people set as minutes, so that the nanoseconds of a time.Duration hold it.
const mostMinutes = 100_000

// Descriptor is the kind for the registry.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{
		Kind: Kind, Label: "Kubernetes", Rank: 5, Boundary: executors.ContainerBoundary, Settings: settings, Docs: "docs/kubernetes.md",
		Verbs: []executors.Verb{poolVerb},
		Idle: executors.IdleRule{Paid: func(v schema.Values) time.Duration {
			return time.Duration(v.Number("idleSeconds")) * time.Second
		}},
		New: func(d executors.Deps) (executors.Executor, error) {
			return New(Config{Dir: d.Dir, GuestPath: d.GuestPath, Log: d.Log, Settings: func(ctx context.Context) (Settings, error) { return FromValues(d.Now(ctx)), nil }})
		},
		Price: func(v schema.Values) executors.Price {
			return executors.Price{VCPUSecondNano: v.Number("priceVcpuHour") / 3600, GiBSecondNano: v.Number("priceGibHour") / 3600, Metered: true}
		},
		Test:    test,
		Examine: examine,
	}
}

// settings are those of sandboxing.kubernetes.
var settings = schema.Schema{
	{Key: "kubeconfig", Name: "kubeconfig", Type: schema.Secret, Label: "Kubeconfig", Example: `{"kind":"Config", …}`,
		Hint: "Kept sealed and never shown again. Paste what `kubectl config view --raw --minify --flatten -o json` prints for a service account of the namespace."},
	{Key: "context", Name: "context", Type: schema.Text, Label: "Context", Hint: "Of the kubeconfig. Empty for its current one.", Rare: true},
	{Key: "namespace", Name: "namespace", Type: schema.Text, Default: defaultNamespace, Label: "Namespace", Hint: "Of pods and volumes. Better one of their own.", Check: name("namespace")},
	{Key: "image", Name: "image", Type: schema.Text, Default: DefaultImage, Label: "Image", Hint: "What pods are made from: it needs sh, tar, gzip and git, and the agents' programs."},
	{Key: "imagePullSecret", Name: "image_pull_secret", Type: schema.Text, Label: "Pull secret", Hint: "A Secret of the namespace for a registry that asks for a login.", Rare: true, Check: name("Secret")},
	{Key: "imagePullPolicy", Type: schema.Choice, Default: "IfNotPresent", Options: []schema.Option{{Value: "IfNotPresent"}, {Value: "Always"}, {Value: "Never"}}},
	{Key: "defaultCpu", Name: "default_cpus", Type: schema.Number, Default: 2, Min: 1, Max: 256, Label: "CPUs", Unit: "vCPU", Hint: "Of sandboxes for which nobody chooses a size."},
	{Key: "defaultMemory", Name: "default_memory_mb", Type: schema.Number, Default: 4096, Min: 256, Max: 1 << 22, Label: "Memory", Unit: "MiB", Hint: "Of sandboxes for which nobody chooses a size."},
	{Key: "requestCpuPercent", Name: "request_cpu_percent", Type: schema.Number, Default: 25, Min: 1, Max: 100, Label: "CPUs reserved", Unit: "%", Rare: true,
		Hint: "The share of a sandbox's CPUs that the scheduler reserves; it may use all of them while they are free."},
	{Key: "requestMemoryPercent", Name: "request_memory_percent", Type: schema.Number, Default: 50, Min: 1, Max: 100, Label: "Memory reserved", Unit: "%", Rare: true,
		Hint: "The share of a sandbox's memory that the scheduler reserves. Below 100 a full node may end pods."},
	{Key: "keepDisk", Name: "keep_disk", Type: schema.Boolean, Default: true, Label: "Files are in a volume",
		Hint: "A PersistentVolumeClaim for each sandbox: it can be paused, and a lost node or full memory costs programs, not files."},
	{Key: "storageClass", Name: "storage_class", Type: schema.Text, Label: "Storage class", Hint: "Of the volumes. Empty for the cluster's default.", Check: name("StorageClass")},
	{Key: "diskGb", Name: "disk_gb", Type: schema.Number, Default: 10, Min: 1, Max: 16384, Label: "Disk", Unit: "GiB"},
	{Key: "runtimeClass", Name: "runtime_class", Type: schema.Text, Label: "Runtime class", Example: "gvisor",
		Hint: "A RuntimeClass of the cluster. gVisor and Kata isolate more than containers, and workspaces show it.", Check: name("RuntimeClass")},
	{Key: "nodeSelector", Name: "node_selector", Type: schema.Text, Label: "Nodes", Example: "pool=agents", Hint: "Labels that nodes must have, separated by commas.", Rare: true,
		Check: func(v any) string { _, err := parseSelector(v.(string)); return says(err) }},
	{Key: "tolerations", Name: "tolerations", Type: schema.Text, Label: "Tolerations", Example: "pool=agents:NoSchedule", Hint: "Taints of nodes that pods accept, separated by commas.", Rare: true,
		Check: func(v any) string { _, err := parseTolerations(v.(string)); return says(err) }},
	{Key: "serviceAccount", Name: "service_account", Type: schema.Text, Label: "Service account", Hint: "Of pods. Its token is not mounted.", Rare: true, Check: name("ServiceAccount")},
	{Key: "priorityClass", Name: "priority_class", Type: schema.Text, Label: "Priority class", Rare: true, Check: name("PriorityClass")},
	{Key: "warmPool", Name: "warm_pool", Type: schema.Text, Label: "Warm pool of agent-sandbox", Rare: true, Check: name("SandboxWarmPool"),
		Hint: "A SandboxWarmPool of the namespace, where kubernetes-sigs/agent-sandbox is installed: sandboxes are claimed from it, and its template says what they are made from."},
	{Key: "networkPolicy", Name: "network_policy", Type: schema.Boolean, Default: true, Label: "Pods reach nothing but through this server",
		Hint: "A NetworkPolicy forbids pods everything; what a workspace may reach goes through this server's gate. The cluster's network plugin must enforce it."},
	{Key: "callAddress", Name: "call_address", Type: schema.Text, Label: "Address of this server that pods call", Example: "https://parawork.example.com", Rare: true,
		Hint: "For many pods at once: each guest calls this server here, and the cluster's API server only starts it. Empty: pods are reached through the API server.", Check: callAddress},
	{Key: "idleSeconds", Name: "idle_minutes", Type: schema.Number, Default: 7200, Max: mostMinutes * 60, Scale: 60, Label: "Suspend when idle", Unit: "minutes",
		Hint: "Its pod ends and its volume stays; agents that wait at a prompt end, and resume when asked to. 0: never."},
	{Key: "priceVcpuHour", Name: "price_vcpu_hour", Type: schema.Number, Label: "Price of a vCPU", Unit: "nano-USD an hour", Rare: true, Hint: "What a vCPU of your nodes costs. 30000000 is 0.03 USD."},
	{Key: "priceGibHour", Name: "price_gib_hour", Type: schema.Number, Label: "Price of a GiB of memory", Unit: "nano-USD an hour", Rare: true},
	{Key: "kubeconfigPath", Type: schema.Text, Env: "PARAWORK_KUBECONFIG"},
	{Key: "inCluster", Type: schema.Boolean},
	{Key: "userId", Type: schema.Number, Default: defaultUser, Min: 1, Max: 1 << 31},
	{Key: "userNamespace", Type: schema.Boolean},
	{Key: "startTimeout", Type: schema.Number, Default: 180, Min: 10, Max: 3600},
	{Key: "requestTimeout", Type: schema.Number, Default: 30, Min: 1},
}

func name(what string) func(any) string {
	return func(v any) string {
		if s := v.(string); s != "" && !dnsName.MatchString(s) {
			return "must be the name of a " + what
		}
		return ""
	}
}

func says(err error) string {
	if err == nil {
		return ""
	}
	return "cannot be read: " + err.Error()
}

// FromValues are the settings that config.json and operators give.
func FromValues(v schema.Values) Settings {
	return Settings{Kubeconfig: v.Text("kubeconfig"), KubeconfigPath: v.Text("kubeconfigPath"), Context: v.Text("context"), InCluster: v.On("inCluster"),
		Namespace: v.Text("namespace"), Image: v.Text("image"), ImagePullPolicy: v.Text("imagePullPolicy"), ImagePullSecret: v.Text("imagePullSecret"),
		ServiceAccount: v.Text("serviceAccount"), RuntimeClass: v.Text("runtimeClass"), NodeSelector: v.Text("nodeSelector"), Tolerations: v.Text("tolerations"),
		PriorityClass: v.Text("priorityClass"), WarmPool: v.Text("warmPool"), UserID: v.Number("userId"), UserNamespace: v.On("userNamespace"),
		CPUs: int(v.Number("defaultCpu")), MemoryMB: v.Number("defaultMemory"), RequestCPU: v.Number("requestCpuPercent"), RequestMemory: v.Number("requestMemoryPercent"),
		CallAddress: v.Text("callAddress"), KeepDisk: v.On("keepDisk"), StorageClass: v.Text("storageClass"), DiskGB: v.Number("diskGb"), NetworkPolicy: v.On("networkPolicy"),
		StartWithin: time.Duration(v.Number("startTimeout")) * time.Second, RequestTimeout: time.Duration(v.Number("requestTimeout")) * time.Second,
		PriceVCPUHour: v.Number("priceVcpuHour"), PriceGiBHour: v.Number("priceGibHour")}
}

// Check says whether a cluster can be used with settings, before they are kept. Its error is a place_cannot_serve whose words are the reason
// alone: the cure is a detail.
func Check(ctx context.Context, set Settings) (string, error) {
	only := func(err error, r Reason, reason, cure string) error {
		return fault.Wrap(err, fault.Unavailable, "place_cannot_serve", "%s.", reason).With("reason", string(r)).With("hint", cure).With("ways", ways(r))
	}
	set, err := set.Normal()
	if err == nil && !set.on() {
		return "", only(nil, NoKey, words[NoKey][0], words[NoKey][1])
	}
	var c *cluster
	if err == nil {
		c, err = open(set, time.Now)
	}
	if err != nil {
		return "", only(err, BadKey, "These settings cannot be used: "+line(err.Error(), 500), "Fix them.")
	}
	if err := c.check(ctx, time.Now); err != nil {
		r := why(err)
		if r == "" {
			return "", err
		}
		reason, cure := wordsOf(r, err)
		return "", only(err, r, reason, cure)
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := c.do(ctx, ask{method: "GET", path: "/version", out: &version}); err != nil {
		return "", inWords(err)
	}
	pods, err := all[pod](ctx, c, c.pods(""), labelManaged+"="+managedBy)
	if err != nil {
		return "", inWords(err)
	}
	out := fmt.Sprintf("Kubernetes %s; %s in namespace %s", line(version.GitVersion, 40), count(len(pods)), set.Namespace)
	if set.CallAddress == "" {
		return out, nil
	}
	h, err := c.host(ctx)
	return out + "; pods call " + strings.Join(h.Addresses, " or "), inWords(err)
}

func count(n int) string {
	switch n {
	case 0:
		return "no sandbox runs there now"
	case 1:
		return "1 sandbox runs there now"
	}
	return fmt.Sprintf("%d sandboxes run there now", n)
}

// test tries settings before they are kept.
func test(ctx context.Context, v schema.Values) (string, error) { return Check(ctx, FromValues(v)) }

// examine is what the doctor says of a cluster that can be used.
func examine(_ context.Context, v schema.Values, c executors.Capabilities) []executors.Finding {
	var out []executors.Finding
	if file := v.Text("kubeconfigPath"); file != "" {
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
			out = append(out, executors.Finding{Found: "others on this machine can read the kubeconfig " + file, Cure: "chmod 600 " + file})
		}
	}
	if v.Text("image") == DefaultImage {
		out = append(out, executors.Finding{Found: "Kubernetes makes pods from " + DefaultImage + ", which holds no agents' programs",
			Cure: "Build an image with `parawork docker build`, push it to a registry of yours, and set sandboxing.kubernetes.image."})
	}
	if !v.On("keepDisk") {
		out = append(out, executors.Finding{Found: "files of Kubernetes sandboxes end with their pods", Cure: "Set sandboxing.kubernetes.keepDisk to true."})
	}
	if c.Boundary == executors.ContainerBoundary {
		out = append(out, executors.Finding{Found: "pods share their node's kernel", Cure: "Set sandboxing.kubernetes.runtimeClass to a gVisor or Kata class of the cluster, where it has one."})
	}
	return out
}
