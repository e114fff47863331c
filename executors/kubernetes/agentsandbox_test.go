package kubernetes_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/kubernetes"
	"github.com/parawork/parawork/executors/kubernetes/kubetest"
)

// agentSandboxes answers before a stand-in as the controller of agent-sandbox does: a claim gets a Sandbox of the pool, whose pod has another
// name than it; a Sandbox that is suspended has no pod and keeps its volume.
type agentSandboxes struct {
	t     *testing.T
	s     *kubetest.Server
	set   kubernetes.Settings
	proxy http.Handler

	mu     sync.Mutex
	claims map[string]map[string]any
}

var authority = regexp.MustCompile(`certificate-authority-data: "?[A-Za-z0-9+/=]+"?`)

func newAgentSandboxes(t *testing.T, s *kubetest.Server) *agentSandboxes {
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	p := httputil.NewSingleHostReverseProxy(u)
	p.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the stand-in's own certificate
	p.FlushInterval = -1
	a := &agentSandboxes{t: t, s: s, set: settings(s), proxy: p, claims: make(map[string]map[string]any)}
	front := httptest.NewTLSServer(a)
	t.Cleanup(front.Close)
	a.set.Kubeconfig = authority.ReplaceAllString(strings.ReplaceAll(a.set.Kubeconfig, s.URL(), front.URL), "insecure-skip-tls-verify: true")
	a.set.WarmPool = "pool"
	return a
}

// cluster asks the stand-in.
func (a *agentSandboxes) cluster(r *http.Request, method, kind, name string, body []byte) int {
	path := a.s.URL() + "/api/v1/namespaces/" + kubetest.Namespace + "/" + kind
	if name != "" {
		path += "/" + name
	}
	req, err := http.NewRequest(method, path, bytes.NewReader(body))
	if err != nil {
		a.t.Error(err)
		return 0
	}
	req.Header = http.Header{"Authorization": r.Header["Authorization"], "Content-Type": {"application/json"}}
	resp, err := a.proxy.(*httputil.ReverseProxy).Transport.RoundTrip(req)
	if err != nil {
		a.t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotFound {
		a.t.Errorf("%s %s: %s", method, path, b)
	}
	return resp.StatusCode
}

func (a *agentSandboxes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, rest, ours := strings.Cut(r.URL.Path, "agents.x-k8s.io/v1beta1/namespaces/"+kubetest.Namespace+"/")
	if !ours {
		a.proxy.ServeHTTP(w, r)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := func(code int, v any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v)
	}
	missing := func() { answer(404, map[string]any{"message": "not found", "reason": "NotFound", "code": 404}) }
	kind, name, _ := strings.Cut(rest, "/")
	body, _ := io.ReadAll(r.Body)
	pod, volume, err := kubernetes.PoolObjects(a.set, "pooled")
	if err != nil {
		a.t.Error(err)
	}
	switch r.Method + " " + kind {
	case "GET sandboxwarmpools":
		answer(200, map[string]any{})
	case "POST sandboxclaims":
		var c map[string]any
		if err := json.Unmarshal(body, &c); err != nil {
			a.t.Error(err)
		}
		if spec := c["spec"].(map[string]any); spec["env"] != nil || spec["volumeClaimTemplates"] != nil || fmt.Sprint(spec["warmPoolRef"]) != "map[name:pool]" {
			a.t.Errorf("the claim is made anew, not from the pool: %v", spec)
		}
		m := c["metadata"].(map[string]any)
		m["uid"] = "uid-1"
		a.claims[m["name"].(string)] = c
		a.cluster(r, "POST", "persistentvolumeclaims", "", volume)
		a.cluster(r, "POST", "pods", "", pod)
		c["status"] = map[string]any{"sandbox": map[string]any{"name": "warm-1"}}
		answer(201, c)
	case "GET sandboxclaims":
		c, there := a.claims[name]
		items := []any{}
		for _, c := range a.claims {
			items = append(items, c)
		}
		switch {
		case name == "":
			answer(200, map[string]any{"items": items})
		case there:
			answer(200, c)
		default:
			missing()
		}
	case "DELETE sandboxclaims":
		delete(a.claims, name)
		a.cluster(r, "DELETE", "pods", "pooled", nil)
		a.cluster(r, "DELETE", "persistentvolumeclaims", "pooled", nil)
		answer(200, map[string]any{})
	case "GET sandboxes":
		answer(200, map[string]any{"metadata": map[string]any{"name": name, "annotations": map[string]any{"agents.x-k8s.io/pod-name": "pooled"}}})
	case "PATCH sandboxes":
		if strings.Contains(string(body), "Suspended") {
			a.cluster(r, "DELETE", "pods", "pooled", nil)
		} else if len(a.s.Pods()) == 0 {
			a.cluster(r, "POST", "pods", "", pod)
		}
		answer(200, map[string]any{})
	default:
		missing()
	}
}

func TestASandboxClaimedFromAPoolOfAgentSandbox(t *testing.T) {
	var a *agentSandboxes
	p := newWorld(t, kubetest.Config{}, func(s *kubernetes.Settings) { s.Kubeconfig, s.WarmPool = a.set.Kubeconfig, a.set.WarmPool })
	a = newAgentSandboxes(t, p.s)
	sb, err := p.e.Create(p.ctx, p.spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	p.use(sb)
	if got := p.run("pwd; echo $GIVEN; echo kept > file"); got != "/work/thing\nto-all\n" {
		t.Errorf("inside: %q", got)
	}
	if list, err := p.e.List(p.ctx); err != nil || len(list) != 1 || list[0].ID != p.spec.ID {
		t.Errorf("List: %v, %v", list, err)
	}
	if err := sb.(executors.Pauser).Pause(p.ctx); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	if pods := p.s.Pods(); len(pods) != 0 {
		t.Errorf("pods of a suspended Sandbox: %v", pods)
	}
	p.recover(newExecutor(t, p.s, p.dir, func(s *kubernetes.Settings) { s.Kubeconfig, s.WarmPool = a.set.Kubeconfig, a.set.WarmPool }))
	if got := p.run("cat file"); got != "kept\n" {
		t.Errorf("its file: %q", got)
	}
	if err := p.sb.Destroy(p.ctx); err != nil {
		t.Fatalf("Destroy: %v", err)
	}
	if _, err := p.e.Recover(p.ctx, sb.Handle()); !errors.Is(err, executors.ErrGone) || len(a.claims) != 0 {
		t.Errorf("Recover after Destroy: %v; claims %v", err, a.claims)
	}
	p.sb = nil
}
