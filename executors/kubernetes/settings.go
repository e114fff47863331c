package kubernetes

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/schema"
)

// Settings say which cluster is used, and how. They are asked for again before each use (Config.Settings), so that what people change holds
// at once.
type Settings struct {
	Kubeconfig     string // its text; it may name no files and start no programs
	KubeconfigPath string // a file of this server, which may
	Context        string // of the kubeconfig; "" = its current one
	InCluster      bool   // this server is a pod of the cluster

	Namespace       string
	Image           string
	ImagePullPolicy string
	ImagePullSecret string
	ServiceAccount  string
	RuntimeClass    string
	NodeSelector    string // "disk=ssd,zone=a"
	Tolerations     string // "team=agents:NoSchedule,spot:NoExecute"
	PriorityClass   string
	UserID          int64 // whom everything in a pod belongs to
	UserNamespace   bool  // pods have a user namespace of their own
	CPUs            int   // default size; 0 = 2
	MemoryMB        int64 // 0 = 4096
	RequestCPU      int64 // percent of a size's CPUs that the scheduler reserves; 0 = 25
	RequestMemory   int64 // percent of its memory; 0 = 50
	KeepDisk        bool  // files are in a PersistentVolumeClaim
	StorageClass    string
	DiskGB          int64
	CallAddress     string // of this server, which guests call; "" = they are reached by exec
	NetworkPolicy   bool   // pods reach nothing but through this server's gate
	StartWithin     time.Duration
	PriceVCPUHour   int64 // nano-USD
	PriceGiBHour    int64 // nano-USD
	WarmPool        string
	RequestTimeout  time.Duration
}

const (
	defaultNamespace = "parawork"
	// DefaultImage is what pods are made from where nobody says otherwise: it has git and the usual tools, and no agents' programs.
	DefaultImage = "node:22-bookworm"
	defaultUser  = 1000
)

var dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// Normal returns the settings complete: with defaults, trimmed. An error names what cannot be.
func (s Settings) Normal() (Settings, error) {
	s.Kubeconfig = strings.TrimSpace(s.Kubeconfig)
	s.Namespace = cmp.Or(strings.TrimSpace(s.Namespace), defaultNamespace)
	s.Image = cmp.Or(strings.TrimSpace(s.Image), DefaultImage)
	s.UserID = cmp.Or(s.UserID, defaultUser)
	s.CPUs, s.MemoryMB = cmp.Or(s.CPUs, 2), cmp.Or(s.MemoryMB, 4096)
	s.RequestCPU, s.RequestMemory = cmp.Or(s.RequestCPU, 25), cmp.Or(s.RequestMemory, 50)
	s.DiskGB = cmp.Or(s.DiskGB, 10)
	s.StartWithin, s.RequestTimeout = cmp.Or(s.StartWithin, 3*time.Minute), cmp.Or(s.RequestTimeout, 30*time.Second)
	for what, name := range map[string]string{"namespace": s.Namespace, "service account": s.ServiceAccount, "runtime class": s.RuntimeClass,
		"pull secret": s.ImagePullSecret, "storage class": s.StorageClass, "priority class": s.PriorityClass, "warm pool": s.WarmPool} {
		if name != "" && !dnsName.MatchString(name) {
			return s, fmt.Errorf("%q is no name of a %s", name, what)
		}
	}
	s.CallAddress = strings.TrimRight(strings.TrimSpace(s.CallAddress), "/")
	if why := callAddress(s.CallAddress); why != "" {
		return s, errors.New("the address that pods call " + why)
	}
	if _, err := parseSelector(s.NodeSelector); err != nil {
		return s, err
	}
	if _, err := parseTolerations(s.Tolerations); err != nil {
		return s, err
	}
	return s, nil
}

// callAddress says what is wrong with an address of this server; "" = nothing.
func callAddress(v any) string { return schema.WebAddress("https://parawork.example.com")(v) }

// on reports whether there is a cluster to be used.
func (s Settings) on() bool { return s.Kubeconfig != "" || s.KubeconfigPath != "" || s.InCluster }

// connection is what decides how the cluster is reached.
func (s Settings) connection() string {
	return strings.Join([]string{s.Kubeconfig, s.KubeconfigPath, s.Context, fmt.Sprint(s.InCluster), s.RequestTimeout.String()}, "\x00")
}

// parseSelector reads labels such as "disk=ssd,zone=a".
func parseSelector(text string) (map[string]string, error) {
	out := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("the node selector %q must be labels such as disk=ssd,zone=a", text)
		}
		out[key] = value
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// parseTolerations reads taints such as "team=agents:NoSchedule,spot:NoExecute". "*" is every taint.
func parseTolerations(text string) ([]toleration, error) {
	var out []toleration
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if part == "*" {
			out = append(out, toleration{Operator: "Exists"})
			continue
		}
		what, effect, _ := strings.Cut(part, ":")
		t := toleration{Operator: "Exists", Effect: effect}
		if key, value, valued := strings.Cut(what, "="); valued {
			t.Key, t.Value, t.Operator = key, value, "Equal"
		} else {
			t.Key = what
		}
		if t.Key == "" || effect != "" && !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, effect) {
			return nil, fmt.Errorf("the toleration %q must be a taint such as team=agents:NoSchedule", part)
		}
		out = append(out, t)
	}
	return out, nil
}

// ladder are the sizes that are offered beside the default one.
var ladder = []executors.Size{{CPUs: 1, MemoryMB: 2048}, {CPUs: 2, MemoryMB: 4096}, {CPUs: 4, MemoryMB: 8192}, {CPUs: 8, MemoryMB: 16384}}

// Sizes are what can be chosen, the smallest first, with prices. The settings are normal.
func (s Settings) Sizes() []executors.Size {
	others := ladder
	if s.WarmPool != "" { // a pool has one size
		others = nil
	}
	return executors.SizesWith(s.CPUs, s.MemoryMB, others, s.PriceNano)
}

// PriceNano is what an hour of a size costs, in nano-USD.
func (s Settings) PriceNano(cpus int, memoryMB int64) int64 {
	return s.PriceVCPUHour*int64(cpus) + s.PriceGiBHour*memoryMB/1024
}

// restConfig says how the cluster is reached.
func (s Settings) restConfig() (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: s.Context}
	var cfg *rest.Config
	var err error
	switch {
	case s.Kubeconfig != "":
		var text []byte
		if text, err = kubeconfigText(s.Kubeconfig); err != nil {
			return nil, err
		}
		read, rerr := clientcmd.Load(text)
		if rerr != nil {
			return nil, fmt.Errorf("the kubeconfig cannot be read: %w. Paste what `kubectl config view --raw --minify --flatten -o json` prints", rerr)
		}
		// Whoever may enter settings in the browser must not thereby read this server's files or start programs on it.
		for name, u := range read.AuthInfos {
			if u.Exec != nil || u.AuthProvider != nil {
				return nil, fmt.Errorf("user %q of the kubeconfig starts a program on this server to log in, which only a kubeconfigPath of config.json may", name)
			}
			if u.TokenFile != "" || u.ClientCertificate != "" || u.ClientKey != "" {
				return nil, fmt.Errorf("user %q of the kubeconfig names a file: add --flatten, or set kubeconfigPath in config.json", name)
			}
		}
		for name, c := range read.Clusters {
			if c.CertificateAuthority != "" {
				return nil, fmt.Errorf("cluster %q of the kubeconfig names a file: add --flatten, or set kubeconfigPath in config.json", name)
			}
		}
		cfg, err = clientcmd.NewDefaultClientConfig(*read, overrides).ClientConfig()
	case s.KubeconfigPath != "":
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: s.KubeconfigPath}
		cfg, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	case s.InCluster:
		cfg, err = rest.InClusterConfig()
	default:
		err = errors.New("no cluster is set")
	}
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = "parawork"
	return cfg, nil
}

// kubeconfigText is a kubeconfig as it was entered: YAML or JSON, perhaps in base64, because a form of one line loses the ends of YAML's lines.
func kubeconfigText(text string) ([]byte, error) {
	if strings.Contains(text, ":") {
		return []byte(text), nil
	}
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, errors.New("it is no kubeconfig: paste what `kubectl config view --raw --minify --flatten -o json` prints")
	}
	return b, nil
}

// address names a cluster and namespace without a secret.
func address(host, namespace string) string {
	sum := sha256.Sum256([]byte(host + "\x00" + namespace))
	return hex.EncodeToString(sum[:6])
}
