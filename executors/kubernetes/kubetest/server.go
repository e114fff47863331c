package kubetest

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/onethread"
)

// Defaults of a cluster, the same as those of testing/testkubernetes.
const (
	Namespace    = "parawork"
	StorageClass = "folders"
	Tools        = "parawork.test/tools:1" // an image with what /usr of this machine has
)

// Config of a cluster. Its zero value is one of one node, with an image, a storage class and a namespace that is held to the restricted
// standard of pod security.
type Config struct {
	Token          string           // of its user; "" = a new one
	User           string           // its name in refusals; "" = that of a service account
	Security       string           // standard of pod security of the namespace; "" = restricted
	Images         map[string]Image // beside Tools
	Nodes          []Node           // nil = one of 8 processors and 32 GiB
	RuntimeClasses []string
	StorageClasses []StorageClassConfig // nil = StorageClass
	HostNetwork    bool                 // pods share this machine's network; else each has a loopback of its own and nothing more
	Dir            string               // where pods' files are; "" = a new folder, removed at Close
	VolumeBytes    int64                // how much a volume of a claim holds; 0 = what the disk has
	Skew           time.Duration        // the cluster's clock, ahead of this machine's
	Version        string               // as /version says it; "" = 1.37
	Translates     bool                 // the API server speaks SPDY to nodes, as before 1.36: what a node refuses arrives in the stream
}

// Image is what containers are made from.
type Image struct {
	Files      map[string]string // files and folders of this machine, by where they are seen inside, read-only
	Entrypoint []string
	User       int64
	Env        map[string]string
}

// Node is a machine of the cluster.
type Node struct {
	Name     string
	Labels   map[string]string
	CPU      string // "8"
	Memory   string // "32Gi"
	Pods     int
	NoTaints bool
}

// StorageClassConfig is how volumes are made.
type StorageClassConfig struct {
	Name     string
	Default  bool
	WaitsFor bool // a volume is made when a pod wants it
	Unable   bool // no volume is ever made
	Host     bool // volumes are folders of the node (hostPath), which are not given to a pod's group
}

// Server is a cluster.
type Server struct {
	cfg    Config
	dir    string
	ownDir bool
	cert   tls.Certificate
	ca     []byte
	addr   string
	runner *onethread.Launcher
	stop   chan struct{}
	wg     sync.WaitGroup

	mu        sync.Mutex
	http      *http.Server
	token     string
	rv        int64
	floor     int64 // no watch begins before it
	store     map[key]*stored
	history   []change
	changed   chan struct{} // closed at the next change
	pods      map[key]*podRun
	images    map[string]Image
	quotas    map[string]string
	forbidden map[string]bool
	faults    []*Fault
	slow      time.Duration
	cutEvery  time.Duration
	noSockets bool
	cordoned  map[string]bool
	lost      map[string]bool
	streams   map[*execStream]struct{}
	requests  []Request
	closed    bool
}

// New starts a cluster that lives as long as the test. It skips the test where containers cannot be made on this machine.
func New(t testing.TB, cfg Config) *Server {
	t.Helper()
	if err := possible(); err != nil {
		t.Skipf("no containers of a stand-in for Kubernetes can be made here: %v", err)
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("starting a stand-in for Kubernetes: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Open starts a cluster outside of a test. Close it.
func Open(cfg Config) (*Server, error) {
	if err := possible(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, dir: cfg.Dir, token: cfg.Token, stop: make(chan struct{}), store: map[key]*stored{}, changed: make(chan struct{}), rv: 100,
		pods: map[key]*podRun{}, images: map[string]Image{Tools: {}}, forbidden: map[string]bool{}, cordoned: map[string]bool{}, lost: map[string]bool{},
		streams: map[*execStream]struct{}{}}
	for name, i := range cfg.Images {
		s.images[name] = i
	}
	s.token = cmp.Or(s.token, "kube-"+rand.Text())
	s.cfg.User = cmp.Or(s.cfg.User, "system:serviceaccount:"+Namespace+":parawork")
	s.cfg.Security = cmp.Or(s.cfg.Security, "restricted")
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "kubetest-")
		if err != nil {
			return nil, err
		}
		if err := os.Chmod(dir, 0o755); err != nil { // what runs in pods is another user
			return nil, err
		}
		s.dir, s.ownDir = dir, true
	}
	if s.cfg.Nodes == nil {
		s.cfg.Nodes = []Node{{Name: "node-1", CPU: "8", Memory: "32Gi", Pods: 110}}
	}
	if s.cfg.StorageClasses == nil {
		s.cfg.StorageClasses = []StorageClassConfig{{Name: StorageClass}}
	}
	s.seed()
	made := httptest.NewUnstartedServer(nil) // its certificate is for 127.0.0.1
	made.StartTLS()
	s.cert = made.TLS.Certificates[0]
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate().Raw})
	made.Close()
	s.runner = onethread.New()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.addr = l.Addr().String()
	s.serve(l)
	return s, nil
}

// serve answers on a listener until the server it makes is closed.
func (s *Server) serve(l net.Listener) {
	srv := &http.Server{Handler: s.handler(), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{s.cert}, MinVersion: tls.VersionTLS12}}
	s.mu.Lock()
	s.http = srv
	s.mu.Unlock()
	s.wg.Go(func() { _ = srv.ServeTLS(l, "", "") })
}

// URL is where the API answers.
func (s *Server) URL() string { return "https://" + s.addr }

// CA is the certificate it is known by, as PEM.
func (s *Server) CA() []byte { return s.ca }

// Token is what its user is known by.
func (s *Server) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// Kubeconfig is the text of a file that leads to the cluster.
func (s *Server) Kubeconfig() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: %q, certificate-authority-data: %s}
users:
- name: u
  user: {token: %q}
contexts:
- name: x
  context: {cluster: c, user: u, namespace: %s}
current-context: x
`, s.URL(), base64.StdEncoding.EncodeToString(s.ca), s.Token(), Namespace)
}

// Close ends every pod and the server.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.stop)
	srv := s.http
	var runs []*podRun
	for _, p := range s.pods {
		runs = append(runs, p)
	}
	s.mu.Unlock()
	_ = srv.Close()
	s.cutStreams()
	for _, p := range runs {
		p.end(0)
	}
	for _, p := range runs {
		<-p.done
	}
	s.wg.Wait()
	s.runner.Close()
	if s.ownDir {
		_ = os.RemoveAll(s.dir)
	}
}

// seed makes what a cluster has from the beginning.
func (s *Server) seed() {
	add := func(plural, ns, name string, o object) {
		r := resourceOf(plural)
		o["kind"], o["apiVersion"] = r.kind, r.apiVersion()
		m, _ := o["metadata"].(object)
		if m == nil {
			m = object{}
		}
		m["name"] = name
		if ns != "" {
			m["namespace"] = ns
		}
		o["metadata"] = m
		s.put(r, ns, name, o)
	}
	labels := object{"kubernetes.io/metadata.name": Namespace}
	if s.cfg.Security != "privileged" {
		labels["pod-security.kubernetes.io/enforce"] = s.cfg.Security
	}
	for name, l := range map[string]object{"default": {"kubernetes.io/metadata.name": "default"}, Namespace: labels} {
		add("namespaces", "", name, object{"metadata": object{"labels": l}, "spec": object{"finalizers": []any{"kubernetes"}}, "status": object{"phase": "Active"}})
		add("serviceaccounts", name, "default", object{})
	}
	for _, c := range s.cfg.StorageClasses {
		mode := "Immediate"
		if c.WaitsFor {
			mode = "WaitForFirstConsumer"
		}
		m := object{}
		if c.Default {
			m["annotations"] = object{"storageclass.kubernetes.io/is-default-class": "true"}
		}
		add("storageclasses", "", c.Name, object{"metadata": m, "provisioner": "kubetest/folders", "reclaimPolicy": "Delete", "volumeBindingMode": mode})
	}
	for _, n := range s.cfg.RuntimeClasses {
		add("runtimeclasses", "", n, object{"handler": n})
	}
	for _, n := range s.cfg.Nodes {
		room := object{"cpu": n.CPU, "memory": n.Memory, "pods": fmt.Sprint(n.Pods), "ephemeral-storage": "100Gi"}
		labels := object{"kubernetes.io/hostname": n.Name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
		for k, v := range n.Labels {
			labels[k] = v
		}
		add("nodes", "", n.Name, object{"metadata": object{"labels": labels}, "spec": object{}, "status": object{"capacity": room, "allocatable": room,
			"conditions": []any{object{"type": "Ready", "status": "True", "reason": "KubeletReady"}}}})
	}
}

// now is the cluster's own time.
func (s *Server) now() string { return time.Now().Add(s.cfg.Skew).UTC().Format(time.RFC3339) }

func newUID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	h := hex.EncodeToString(b)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

const nameLetters = "bcdfghjklmnpqrstvwxz2456789" // those the API makes names of

func randomName(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = nameLetters[int(b[i])%len(nameLetters)]
	}
	return string(b)
}
