// Package testkubernetes gives tests a Kubernetes of their own: a real API server, scheduler, controllers and kubelet over containerd, in
// namespaces of their own, without a registry. Its programs are one file that testing/scripts/test-kubernetes.sh builds once; nothing of
// them is in Parawork's own module. It ends with the test binary, however that ends.
//
// What it has not: a network plugin that enforces policies (they are only checked), cluster addresses and DNS, and a way out to any network.
package testkubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/testdocker"
)

const (
	// Namespace is where tests work. Pods there are held to the restricted standard of pod security.
	Namespace = "parawork"
	// Image has a shell, git and the usual tools.
	Image = "parawork.test/tools:1"
	// StorageClass makes volumes of folders of this machine.
	StorageClass = "folders"

	pauseImage = "parawork.test/pause:1"
)

// NodeEnv names an environment variable with the path of the node's program, where it is not in the cache.
const NodeEnv = "PARAWORK_TEST_KUBERNETES_NODE"

// Node is one cluster of one node. Its only user may do everything.
type Node struct {
	Kubeconfig string // the text of one

	dir, cgroup, token, url string
	keeper                  *exec.Cmd
	hold                    io.WriteCloser // the keeper lives as long as this is open
	client                  *http.Client
}

// errNot says why there is no node to be had.
type errNot struct{ reason string }

func (e errNot) Error() string { return e.reason }

// Skip says why a test without a node is skipped. Where the node was asked for, as `make test-kubernetes` does, the test fails.
func Skip(t testing.TB, err error) {
	t.Helper()
	if no, ok := errors.AsType[errNot](err); ok && os.Getenv("PARAWORK_TEST_KUBERNETES") == "" {
		t.Skip("no Kubernetes node: " + no.reason)
	}
	t.Fatalf("no Kubernetes node: %v", err)
}

//go:embed node/version
var version string

//go:embed node/main.go.in
var source []byte

// program finds what the node runs.
func program() (string, error) {
	if path := os.Getenv(NodeEnv); path != "" {
		return path, nil
	}
	if os.Geteuid() != 0 {
		return "", errNot{"it needs root"}
	}
	for _, p := range []string{"containerd", "runc", "unshare", "openssl", "ip"} {
		if _, err := exec.LookPath(p); err != nil {
			return "", errNot{p + " is not installed; make test-kubernetes installs it"}
		}
	}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	sum := sha256.Sum256(source)
	path := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), ".cache", "kubernetes",
		strings.TrimSpace(version)+"-"+hex.EncodeToString(sum[:6]), "node")
	if _, err := os.Stat(path); err != nil {
		return "", errNot{"its program was not built; make test-kubernetes builds it once, which takes some minutes"}
	}
	return path, nil
}

// Start starts a node and waits until it takes pods.
func Start() (*Node, error) {
	program, err := program()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pwk8s")
	if err != nil {
		return nil, err
	}
	n := &Node{dir: dir, cgroup: "/" + filepath.Base(dir), token: rand.Text()}
	if err := errors.Join(n.writeFiles(), syscall.Mkfifo(filepath.Join(dir, "lines"), 0o600)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	// The listener is in this network, and the API server in the node's own.
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer l.Close()
	f, err := l.File()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer f.Close()
	n.url = "https://" + l.Addr().String()
	n.keeper = exec.Command("bash", "-c", keeperScript, "keeper", dir, program, n.cgroup)
	n.keeper.ExtraFiles = []*os.File{f}
	n.keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt ends the tests, and through them this
	if n.hold, err = n.keeper.StdinPipe(); err == nil {
		err = n.keeper.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := n.prepare(); err != nil {
		err = fmt.Errorf("%w\n%s", err, n.logs())
		n.Stop()
		return nil, err
	}
	return n, nil
}

// Stop ends the node and removes all of it.
func (n *Node) Stop() {
	n.client.CloseIdleConnections()
	_ = n.hold.Close()
	_ = n.keeper.Wait() // its exit code says nothing
}

// RestartAPI kills the API server, which is then started again. Ready waits for it.
func (n *Node) RestartAPI() error {
	_, err := io.WriteString(n.hold, "restart\n")
	return err
}

// readyIn bounds every wait for the node.
const readyIn = 3 * time.Minute

// prepare waits for the programs, and gives the cluster what every test wants.
func (n *Node) prepare() error {
	n.client = &http.Client{}
	ctx, cancel := context.WithTimeout(context.Background(), readyIn)
	defer cancel()
	var ca []byte
	err := n.until(ctx, "a certificate of the API server", func() (err error) {
		ca, err = os.ReadFile(filepath.Join(n.dir, "certs", "apiserver.crt"))
		if err == nil && !bytes.Contains(ca, []byte("END CERTIFICATE")) {
			err = errors.New("it is being written")
		}
		return err
	})
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	n.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	n.Kubeconfig = fmt.Sprintf(kubeconfig, n.url, "certificate-authority-data: "+base64.StdEncoding.EncodeToString(ca), n.token)
	if err := n.importImages(ctx); err != nil {
		return err
	}
	if err := n.Ready(ctx); err != nil {
		return err
	}
	for path, body := range map[string]string{
		"/api/v1/namespaces": `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "` + Namespace + `", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`,
		"/apis/storage.k8s.io/v1/storageclasses": `{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "` + StorageClass + `"},
			"provisioner": "kubernetes.io/host-path", "volumeBindingMode": "Immediate"}`,
	} {
		if err := n.Do(ctx, http.MethodPost, path, body, nil); err != nil {
			return err
		}
	}
	return n.until(ctx, "a node that takes pods", func() error {
		var node struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		if err := n.Do(ctx, http.MethodGet, "/api/v1/nodes/localhost", "", &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				return n.Do(ctx, http.MethodGet, "/api/v1/namespaces/"+Namespace+"/serviceaccounts/default", "", nil)
			}
		}
		return errors.New("it is not ready")
	})
}

// Ready waits until the API server answers.
func (n *Node) Ready(ctx context.Context) error {
	return n.until(ctx, "an API server that is ready", func() error { return n.Do(ctx, http.MethodGet, "/readyz", "", nil) })
}

// until tries again until it works.
func (n *Node) until(ctx context.Context, what string, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("there is no %s: %w", what, err)
		case <-time.After(100 * time.Millisecond): // nobody tells
		}
	}
}

// Do sends a request to the API server, as the user that may do everything, and decodes the answer into out unless that is nil.
func (n *Node) Do(ctx context.Context, method, path, body string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, n.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+n.token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	res, err := n.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, b)
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(b, out)
}

// importImages gives the node its images.
func (n *Node) importImages(ctx context.Context) error {
	err := n.until(ctx, "containerd", func() error { return n.ctr(ctx, nil, "version") })
	if err != nil {
		return err
	}
	// What holds a pod together sleeps until a signal ends it.
	if err := n.importImage(ctx, pauseImage, []string{"/bin/sh", "-c", "trap 'exit 0' TERM INT; sleep infinity & wait"}, func(w io.Writer) error {
		return testdocker.WriteRoot(w, "sh", "sleep")
	}); err != nil {
		return err
	}
	return n.Import(ctx, Image)
}

// Import gives the node another image: what Image has, and programs of this machine, by name or path, and folders on top.
func (n *Node) Import(ctx context.Context, name string, more ...string) error {
	return n.importImage(ctx, name, nil, func(w io.Writer) error { return testdocker.WriteTools(w, more...) })
}

func (n *Node) importImage(ctx context.Context, name string, entry []string, write func(io.Writer) error) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeArchive(w, n.dir, name, entry, write)) }() // ends with the reader
	defer r.Close()
	if err := n.ctr(ctx, r, "-n", "k8s.io", "images", "import", "-"); err != nil {
		return fmt.Errorf("importing the image %s: %w", name, err)
	}
	return nil
}

func (n *Node) ctr(ctx context.Context, in io.Reader, args ...string) error {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"-a", filepath.Join(n.dir, "containerd.sock")}, args...)...)
	cmd.Stdin = in
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr: %w: %s", err, out)
	}
	return nil
}

// logs are the ends of what the programs say.
func (n *Node) logs() string {
	var out strings.Builder
	all, _ := filepath.Glob(filepath.Join(n.dir, "log", "*"))
	for _, path := range all {
		b, _ := os.ReadFile(path)
		fmt.Fprintf(&out, "--- %s\n%s\n", filepath.Base(path), b[max(0, len(b)-1500):])
	}
	return out.String()
}
