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
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/kubernetes"
	"github.com/parawork/parawork/executors/kubernetes/kubetest"
)

// agentSandboxes answers before a stand-in as the API server with the CRDs of agent-sandbox and its controller do (v0.5.6): what the CRD's schema
// does not know or allow is refused; a claim first has neither a Sandbox nor a status, then gets one of the pool that is not ready, whose pod has
// another name than it; a Sandbox that is suspended has no pod and keeps its volume, and its next pod has its own name.
type agentSandboxes struct {
	t     *testing.T
	s     *kubetest.Server
	set   kubernetes.Settings
	proxy http.Handler

	mu        sync.Mutex
	claims    map[string]map[string]any
	looks     int  // at the claim
	suspended bool // the Sandbox is, or was: its pod has its own name from then on
}

// The fields of v1beta1 that a client may write; a nil rule is anything.
type rule map[string]any

var (
	metadataRule = rule{"name": nil, "namespace": nil, "labels": nil, "annotations": nil}
	claimRule    = rule{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim", "metadata": metadataRule,
		"spec": rule{"warmPoolRef!": rule{"name!": nil}, "lifecycle": rule{"shutdownTime": nil, "ttlSecondsAfterFinished": nil, "shutdownPolicy": "Delete DeleteForeground Retain"},
			"additionalPodMetadata": rule{"labels": nil, "annotations": nil}, "env": nil, "volumeClaimTemplates": nil}}
	sandboxRule  = rule{"spec": rule{"operatingMode": "Running Suspended", "shutdownTime": nil, "shutdownPolicy": "Delete Retain"}} // as a patch
	templateRule = rule{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate", "metadata": metadataRule,
		"spec": rule{"podTemplate!": rule{"spec!": nil, "metadata": rule{"labels": nil, "annotations": nil}}, "volumeClaimTemplates": nil, "service": nil, "networkPolicy": nil,
			"networkPolicyManagement": "Managed Unmanaged", "envVarsInjectionPolicy": "Allowed Overrides Disallowed", "volumeClaimTemplatesPolicy": "Allowed Overrides Disallowed"}}
	poolRule = rule{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool", "metadata": metadataRule,
		"spec": rule{"replicas": nil, "sandboxTemplateRef!": rule{"name!": nil}, "updateStrategy": rule{"type": "Recreate OnReplenish"}}}
)

// wrong says what a rule refuses in v; "" = nothing.
func wrong(r rule, v any, at string) string {
	o, ok := v.(map[string]any)
	if !ok {
		return at + ": must be an object"
	}
	for key := range r {
		if name, required := strings.CutSuffix(key, "!"); required && o[name] == nil {
			return at + "." + name + ": Required value"
		}
	}
	for key, value := range o {
		sub, known := r[key]
		if !known {
			if sub, known = r[key+"!"]; !known {
				return at + "." + key + ": unknown field"
			}
		}
		switch sub := sub.(type) {
		case rule:
			if said := wrong(sub, value, at+"."+key); said != "" {
				return said
			}
		case string:
			if text, ok := value.(string); !ok || !slices.Contains(strings.Fields(sub), text) {
				return fmt.Sprintf("%s.%s: Unsupported value: %v: supported values: %s", at, key, value, sub)
			}
		}
	}
	return ""
}

// readyCondition is one as the controller writes it.
func readyCondition(status, reason, message string) any {
	return []any{map[string]any{"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-08-01T00:00:00Z", "observedGeneration": 1}}
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
	podName := func() string {
		if a.suspended {
			return "warm-1"
		}
		return "pooled"
	}
	pod, _, err := kubernetes.PoolObjects(a.set, podName())
	if err != nil {
		a.t.Error(err)
	}
	read := func(ru rule) (map[string]any, bool) {
		var v map[string]any
		if err := json.Unmarshal(body, &v); err != nil {
			a.t.Error(err)
		}
		said := wrong(ru, v, "object")
		if said != "" {
			a.t.Errorf("%s %s is refused: %s", r.Method, kind, said)
			answer(422, map[string]any{"kind": "Status", "message": said, "reason": "Invalid", "code": 422})
		}
		return v, said == ""
	}
	switch r.Method + " " + kind {
	case "GET sandboxwarmpools":
		answer(200, map[string]any{})
	case "POST sandboxclaims":
		c, ok := read(claimRule)
		if !ok {
			return
		}
		if spec := c["spec"].(map[string]any); spec["env"] != nil || spec["volumeClaimTemplates"] != nil || fmt.Sprint(spec["warmPoolRef"]) != "map[name:pool]" {
			a.t.Errorf("the claim is made anew, not from the pool: %v", spec)
		}
		m := c["metadata"].(map[string]any)
		m["uid"] = "uid-1"
		a.claims[m["name"].(string)] = c
		_, volume, _ := kubernetes.PoolObjects(a.set, "pooled")
		a.cluster(r, "POST", "persistentvolumeclaims", "", volume)
		a.cluster(r, "POST", "pods", "", pod)
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
			switch a.looks++; a.looks {
			case 1:
			case 2:
				c["status"] = map[string]any{"conditions": readyCondition("False", "SandboxMissing", "Sandbox does not exist")}
			case 3:
				c["status"] = map[string]any{"conditions": readyCondition("False", "DependenciesNotReady", "Pod exists with phase: Pending"), "sandbox": map[string]any{"name": "warm-1"}}
			default:
				c["status"] = map[string]any{"conditions": readyCondition("True", "DependenciesReady", "Pod is Ready"),
					"sandbox": map[string]any{"name": "warm-1", "podIPs": []any{"10.244.0.9"}}}
			}
			answer(200, c)
		default:
			missing()
		}
	case "DELETE sandboxclaims":
		delete(a.claims, name)
		a.cluster(r, "DELETE", "pods", podName(), nil)
		a.cluster(r, "DELETE", "persistentvolumeclaims", "pooled", nil)
		answer(200, map[string]any{"kind": "Status", "status": "Success"})
	case "GET sandboxes":
		m := map[string]any{"name": name}
		if !a.suspended { // the controller removes it with the pod that it names
			m["annotations"] = map[string]any{"agents.x-k8s.io/pod-name": "pooled"}
		}
		answer(200, map[string]any{"metadata": m})
	case "PATCH sandboxes":
		if got := r.Header.Get("Content-Type"); got != "application/merge-patch+json" {
			a.t.Errorf("a patch of a custom resource is %q", got)
		}
		v, ok := read(sandboxRule)
		if !ok {
			return
		}
		if v["spec"].(map[string]any)["operatingMode"] == "Suspended" {
			a.cluster(r, "DELETE", "pods", podName(), nil)
			a.suspended = true
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
