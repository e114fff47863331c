package places

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"

	"github.com/parawork/parawork/executors/kubernetes"
	"github.com/parawork/parawork/executors/kubernetes/kubetest"
	"github.com/parawork/parawork/internal/guestbin"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/testing/testkubernetes"
)

// cluster makes pods with nothing but the API: the baseline.
type cluster struct {
	cfg              *rest.Config
	http             *http.Client
	base             *url.URL
	namespace, image string
}

type barePod struct {
	*cluster
	name string
}

func (c *cluster) do(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath("api/v1/namespaces", c.namespace, path).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	return err
}

func (c *cluster) make(ctx context.Context) (machine, error) {
	type m = map[string]any
	p := barePod{c, "bare-" + id.New("m")[2:14]}
	limits := m{"cpu": "500m", "memory": "256Mi"}
	err := c.do(ctx, http.MethodPost, "pods", m{"apiVersion": "v1", "kind": "Pod", "metadata": m{"name": p.name}, "spec": m{"automountServiceAccountToken": false,
		"securityContext": m{"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": m{"type": "RuntimeDefault"}},
		"containers": []m{{"name": "main", "image": c.image, "command": []string{"/bin/sh", "-c", "sleep 3600"}, "resources": m{"limits": limits, "requests": limits},
			"securityContext": m{"allowPrivilegeEscalation": false, "capabilities": m{"drop": []string{"ALL"}}}}}}}, nil)
	for err == nil {
		var got struct{ Status struct{ Phase string } }
		if err = c.do(ctx, http.MethodGet, "pods/"+p.name, nil, &got); err == nil && got.Status.Phase == "Running" {
			break
		}
		time.Sleep(5 * time.Millisecond) // a watch would be quicker by that
	}
	return p, err
}

func (p barePod) open(ctx context.Context, argv ...string) (io.ReadWriteCloser, error) {
	u := p.base.JoinPath("api/v1/namespaces", p.namespace, "pods", p.name, "exec")
	u.RawQuery = url.Values{"container": {"main"}, "stdin": {"true"}, "stdout": {"true"}, "command": argv}.Encode()
	ws, err := remotecommand.NewWebSocketExecutor(p.cfg, http.MethodGet, u.String())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() { // ends with the stream
		err := ws.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: inR, Stdout: outW})
		_ = outW.CloseWithError(err)
		_ = inR.Close()
	}()
	return &podStream{inW, outR, cancel}, nil
}

func (p barePod) remove(ctx context.Context) error {
	return p.do(ctx, http.MethodDelete, "pods/"+p.name, map[string]any{"gracePeriodSeconds": 0}, nil)
}

type podStream struct {
	*io.PipeWriter
	out    io.Reader
	cancel context.CancelFunc
}

// Read reads what the program writes.
func (s *podStream) Read(b []byte) (int, error) { return s.out.Read(b) }

// Close cuts the stream.
func (s *podStream) Close() error {
	s.cancel()
	return s.PipeWriter.Close()
}

// pods are those of a real node where its programs are there, else of a stand-in.
func pods(r *rig) (place, error) {
	set := kubernetes.Settings{KeepDisk: true, NetworkPolicy: true, DiskGB: 1, CPUs: 1, MemoryMB: 256, RequestCPU: 1, RequestMemory: 25, StartWithin: time.Minute}
	if n, err := testkubernetes.Start(); err == nil {
		r.Cleanup(n.Stop)
		fmt.Println("  kubernetes   on a real node")
		set.Kubeconfig, set.Namespace, set.Image, set.StorageClass = n.Kubeconfig, testkubernetes.Namespace, testkubernetes.Image, testkubernetes.StorageClass
	} else {
		fmt.Printf("  kubernetes   on a stand-in, for a real node cannot be had: %v\n", err)
		hash, err := guestbin.Hash(r.cfg.Guest)
		if err != nil {
			return place{}, err
		}
		const image = "parawork.test/agent:1"
		s := kubetest.New(r, kubetest.Config{Images: map[string]kubetest.Image{image: {Files: map[string]string{"/opt/parawork/guest-" + hash: r.cfg.Guest}}}})
		set.Kubeconfig, set.Namespace, set.Image, set.StorageClass = s.Kubeconfig(), kubetest.Namespace, image, kubetest.StorageClass
	}
	ex, err := kubernetes.New(kubernetes.Config{Dir: r.TempDir(), GuestPath: r.cfg.Guest, Settings: func(context.Context) (kubernetes.Settings, error) { return set, nil }})
	if err != nil {
		return place{}, err
	}
	r.close(ex)
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(set.Kubeconfig))
	if err != nil {
		return place{}, err
	}
	c := &cluster{cfg: cfg, namespace: set.Namespace, image: set.Image}
	if c.http, err = rest.HTTPClientFor(cfg); err == nil {
		c.base, _, err = rest.DefaultServerUrlFor(cfg)
	}
	return place{ex: ex, root: r.worktree(true), remote: true, bare: c}, err
}
