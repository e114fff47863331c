package kubetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/kubernetes/kubetest"
	"github.com/parawork/parawork/testing/testkubernetes"
)

// TestRefusals asks the stand-in what no executor should ask.
func TestRefusals(t *testing.T) {
	t.Parallel()
	_, c := standIn(t, kubetest.Config{})
	for _, r := range refusals {
		if got := r.ask(c); !strings.Contains(got, r.want) {
			t.Errorf("%s:\n got %s\nwant %s", r.name, got, r.want)
		}
	}
}

// TestKubernetesAnswersAlike asks the stand-in and a real node the same things, and compares what they say.
func TestKubernetesAnswersAlike(t *testing.T) {
	n, err := testkubernetes.Start()
	if err != nil {
		testkubernetes.Skip(t, err)
	}
	t.Cleanup(n.Stop)
	_, c := standIn(t, kubetest.Config{StorageClasses: []kubetest.StorageClassConfig{{Name: kubetest.StorageClass, Host: true}}})
	real := clusterOf(t, n.Kubeconfig, testkubernetes.Image)
	for _, r := range refusals {
		if got, want := plain(r.ask(c)), plain(r.ask(real)); got != want {
			t.Errorf("%s:\nthe stand-in %s\nthe real one %s", r.name, got, want)
		}
	}
	for _, s := range lives {
		t.Run(s.name, func(t *testing.T) {
			c, real := *c, *real
			c.t, real.t = t, t
			if got, want := s.live(&c), s.live(&real); got != want {
				t.Errorf("the stand-in:\n%s\nthe real one:\n%s", got, want)
			}
		})
	}
}

var (
	stamps = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	users  = regexp.MustCompile(`User "[^"]+"`)
	used   = regexp.MustCompile(`used: pods=\d+`)
)

// plain leaves out what differs from one cluster to another.
func plain(s string) string { return users.ReplaceAllString(stamps.ReplaceAllString(s, "UID"), "USER") }

// refusal is a request that is refused, and how.
type refusal struct {
	name, method, path string
	body               func(c *cluster) any
	want               string
}

func (r refusal) ask(c *cluster) string {
	var body any
	if r.body != nil {
		body = r.body(c)
	}
	return said(c.ask(r.method, r.path, body))
}

// strict has the real one refuse fields that it does not know, as the stand-in always does.
const strict = "?fieldValidation=Strict"

func posted(change func(pod, spec, container object)) func(c *cluster) any {
	return func(c *cluster) any {
		var spec, container object
		p := c.pod("x", "exec sleep 1", func(s, k object) { spec, container = s, k })
		change(p, spec, container)
		return p
	}
}

func claimed(change func(meta, spec object)) func(c *cluster) any {
	return func(*cluster) any {
		meta, spec := object{"name": "x"}, object{"accessModes": []any{"ReadWriteOnce"}, "resources": object{"requests": object{"storage": "1Gi"}}}
		change(meta, spec)
		return object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
	}
}

func policy(spec object) func(c *cluster) any {
	return func(*cluster) any {
		return object{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": object{"name": "x"}, "spec": spec}
	}
}

var refusals = []refusal{
	{"no such pod", "GET", pods + "/none", nil, `404 NotFound: pods "none" not found`},
	{"no such pod to delete", "DELETE", pods + "/none", nil, `404 NotFound: pods "none" not found`},
	{"no such namespace", "POST", "/api/v1/namespaces/none/pods", func(c *cluster) any { return c.pod("x", "exit", nil) }, `404 NotFound: namespaces "none" not found`},
	{"no such resource", "GET", "/api/v1/namespaces/parawork/sandboxes", nil, "404 NotFound: the server could not find the requested resource"},
	{"no such group", "GET", "/apis/example.invalid/v1/things", nil, "404"},
	{"no such policy", "GET", policies + "/none", nil, `404 NotFound: networkpolicies.networking.k8s.io "none" not found`},
	{"no such runtime class", "GET", "/apis/node.k8s.io/v1/runtimeclasses/none", nil, `404 NotFound: runtimeclasses.node.k8s.io "none" not found`},
	{"an unknown field", "POST", pods + strict, posted(func(_, spec, _ object) { spec["restart"] = "Never" }),
		`400 BadRequest: Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.restart"`},
	{"an unknown field of a container", "POST", pods + strict, posted(func(_, _, k object) { k["memory"] = "1Gi" }), `strict decoding error: unknown field "spec.containers[0].memory"`},
	{"a bad name", "POST", pods, posted(func(p, _, _ object) { p["metadata"].(object)["name"] = "X_1" }), `422 Invalid: Pod "X_1" is invalid: metadata.name: Invalid value: "X_1": a lowercase RFC 1123 subdomain must`},
	{"no name", "POST", pods, posted(func(p, _, _ object) { delete(p["metadata"].(object), "name") }), `422 Invalid: Pod "" is invalid: metadata.name: Required value: name or generateName is required`},
	{"a bad label", "POST", pods, posted(func(p, _, _ object) { p["metadata"].(object)["labels"] = object{"a": "b c"} }), `metadata.labels: Invalid value: "b c": a valid label must`},
	{"a label that is too long", "POST", pods, posted(func(p, _, _ object) { p["metadata"].(object)["labels"] = object{"a": strings.Repeat("x", 64)} }), `must be no more than 63 bytes`},
	{"a bad quantity", "POST", pods, posted(func(_, _, k object) { k["resources"] = object{"limits": object{"memory": "many"}} }), `quantities must match the regular expression`},
	{"more requested than allowed", "POST", pods, posted(func(_, _, k object) {
		k["resources"] = object{"requests": object{"cpu": "2"}, "limits": object{"cpu": "1"}}
	}), `422 Invalid: Pod "x" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`},
	{"no image", "POST", pods, posted(func(_, _, k object) { delete(k, "image") }), `422 Invalid: Pod "x" is invalid: spec.containers[0].image: Required value`},
	{"a volume that is not there", "POST", pods, posted(func(_, _, k object) {
		k["volumeMounts"] = []any{object{"name": "none", "mountPath": "/x"}}
	}), `422 Invalid: Pod "x" is invalid: spec.containers[0].volumeMounts[0].name: Not found: "none"`},
	{"a bad policy of restarts", "POST", pods, posted(func(_, spec, _ object) { spec["restartPolicy"] = "Sometimes" }),
		`422 Invalid: Pod "x" is invalid: spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`},
	{"another kind", "POST", pods, posted(func(p, _, _ object) { p["kind"] = "Secret" }), `400 BadRequest: `},
	{"another namespace", "POST", pods, posted(func(p, _, _ object) { p["metadata"].(object)["namespace"] = "default" }),
		`400 BadRequest: the namespace of the provided object does not match the namespace sent on the request`},
	{"all that restricted forbids", "POST", pods, posted(func(_, spec, k object) {
		delete(spec, "securityContext")
		delete(k, "securityContext")
	}), `403 Forbidden: pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set ` +
		`securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true ` +
		`(pod or container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`},
	{"root", "POST", pods, posted(func(_, spec, _ object) { spec["securityContext"].(object)["runAsUser"] = 0 }), `runAsUser=0 (pod must not set runAsUser=0)`},
	{"a folder of the node", "POST", pods, posted(func(_, spec, _ object) {
		spec["volumes"] = []any{object{"name": "v", "hostPath": object{"path": "/"}}}
	}), `violates PodSecurity "restricted:latest"`},
	{"the node's network", "POST", pods, posted(func(_, spec, _ object) { spec["hostNetwork"] = true }), `host namespaces (hostNetwork=true)`},
	{"no such runtime class for a pod", "POST", pods, posted(func(_, spec, _ object) { spec["runtimeClassName"] = "none" }), `403 Forbidden: pods "x" is forbidden: pod rejected: RuntimeClass "none" not found`},
	{"no such service account", "POST", pods, posted(func(_, spec, _ object) { spec["serviceAccountName"] = "none" }),
		`403 Forbidden: pods "x" is forbidden: error looking up service account parawork/none: serviceaccount "none" not found`},
	{"no such class of priority", "POST", pods, posted(func(_, spec, _ object) { spec["priorityClassName"] = "none" }), `403 Forbidden: pods "x" is forbidden: no PriorityClass with name none was found`},
	{"a claim without a mode", "POST", claims, claimed(func(_, spec object) { delete(spec, "accessModes") }), `422 Invalid: PersistentVolumeClaim "x" is invalid: spec.accessModes: Required value: at least 1 access mode is required`},
	{"a claim without a size", "POST", claims, claimed(func(_, spec object) { spec["resources"] = object{} }), `422 Invalid: PersistentVolumeClaim "x" is invalid: spec.resources[storage]: Required value`},
	{"a policy of another type", "POST", policies, policy(object{"podSelector": object{}, "policyTypes": []any{"Sideways"}}),
		`422 Invalid: NetworkPolicy.networking.k8s.io "x" is invalid: spec.policyTypes[0]: Unsupported value: "Sideways": supported values: "Ingress", "Egress"`},
	{"a policy with a bad address", "POST", policies, policy(object{"podSelector": object{}, "policyTypes": []any{"Egress"}, "egress": []any{object{"to": []any{object{"ipBlock": object{"cidr": "10.0.0.0"}}}}}}),
		`spec.egress[0].to[0].ipBlock.cidr: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`},
	{"a field that cannot be selected", "GET", pods + "?fieldSelector=" + url.QueryEscape("spec.nothing=1"), nil, `400 BadRequest: field label not supported: spec.nothing`},
	{"a patch of a kind nobody knows", "PATCH", pods + "/none", func(*cluster) any { return object{} }, `404 NotFound: pods "none" not found`},
	{"exec in no pod", "GET", pods + "/none/exec?command=true&stdout=true", nil, `404 NotFound: pods "none" not found`},
}

// life is something that happens, told in lines that both clusters must tell alike.
type life struct {
	name string
	live func(c *cluster) string
}

// story collects lines.
type story struct{ strings.Builder }

func (s *story) add(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// events are what a cluster says about a pod, until it has said the last.
func (c *cluster) events(about, last string) []string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for {
		_, o := c.ask(http.MethodGet, "/api/v1/namespaces/parawork/events?fieldSelector="+url.QueryEscape("involvedObject.name="+about), nil)
		var out []string
		items, _ := o["items"].([]any)
		seen := false
		for _, e := range items {
			if at(e, "reason") == "MissingClusterDNS" { // the node of tests has none
				continue
			}
			out = append(out, fmt.Sprintf("%v %v", at(e, "type"), at(e, "reason")))
			seen = seen || at(e, "reason") == last
		}
		if seen || ctx.Err() != nil {
			return out
		}
		time.Sleep(20 * time.Millisecond) // one look is cheaper than a watch
	}
}

var lives = []life{
	{"a program's streams and end", func(c *cluster) string {
		var s story
		c.running(c.pod("exec", "trap 'exit 0' TERM; while :; do sleep 0.1; done", nil))
		out, errs, status := c.exec("exec", "to you", "/bin/sh", "-c", "cat; echo; id -u; id -G; echo bad >&2; exit 7")
		s.add("%q %q %v", out, errs, status)
		out, errs, status = c.exec("exec", "", "/bin/sh", "-c", "head -c 1000000 /dev/zero | wc -c")
		s.add("%q %q %v", out, errs, status)
		_, _, status = c.exec("exec", "", "/no/such/program")
		s.add("%v %v", at(status, "status"), at(status, "reason"))
		for _, q := range []url.Values{
			{"command": {"true"}, "stdout": {"true"}, "container": {"other"}}, {"command": {"true"}},
		} {
			_, res, err := c.dial("exec", q)
			if err == nil {
				s.add("%v was taken", q)
				continue
			}
			b, _ := io.ReadAll(res.Body)
			var o object // whatever order its fields are in
			if json.Unmarshal(b, &o) == nil {
				s.add("%v: %s", q, said(res.StatusCode, o))
				continue
			}
			s.add("%v: %d %s", q, res.StatusCode, b)
		}
		_, o := c.ask(http.MethodDelete, pods+"/exec", nil)
		s.add("%v", at(o, "metadata", "deletionGracePeriodSeconds"))
		c.gone("exec")
		return s.String()
	}},
	{"how a pod ends", func(c *cluster) string {
		var s story
		for name, script := range map[string]string{"good": "exit 0", "bad": "exit 3"} {
			if code, o := c.ask(http.MethodPost, pods, c.pod(name, script, nil)); code != http.StatusCreated {
				c.t.Fatal(code, o)
			}
		}
		for _, name := range []string{"good", "bad"} {
			o := c.until(name, func(_ int, o object) bool { p := at(o, "status", "phase"); return p == "Succeeded" || p == "Failed" })
			st := at(o, "status", "containerStatuses", 0, "state", "terminated")
			s.add("%s: %v %v %v %v", name, at(o, "status", "phase"), at(st, "reason"), at(st, "exitCode"), at(o, "status", "containerStatuses", 0, "ready"))
			_, res, err := c.dial(name, url.Values{"command": {"true"}, "stdout": {"true"}})
			b, _ := io.ReadAll(res.Body)
			s.add("exec: %v %v %s", err != nil, res.StatusCode, b)
			code, o := c.ask(http.MethodDelete, pods+"/"+name, nil)
			s.add("%d %v", code, o["kind"])
			c.gone(name)
		}
		return s.String()
	}},
	{"an image that is not there", func(c *cluster) string {
		var s story
		p := c.pod("image", "exit", func(_, k object) { k["image"] = "parawork.invalid/none:1" })
		if code, o := c.ask(http.MethodPost, pods, p); code != http.StatusCreated {
			c.t.Fatal(code, o)
		}
		o := c.until("image", func(_ int, o object) bool {
			r, _ := at(o, "status", "containerStatuses", 0, "state", "waiting", "reason").(string)
			return r == "ErrImagePull" || r == "ImagePullBackOff"
		})
		s.add("%v", at(o, "status", "phase"))
		s.add("%v", c.events("image", "Failed")[:3])
		_, _ = c.ask(http.MethodDelete, pods+"/image", object{"gracePeriodSeconds": 0})
		c.gone("image")
		return s.String()
	}},
	{"no node", func(c *cluster) string {
		var s story
		p := c.pod("far", "exit", func(spec, _ object) { spec["nodeSelector"] = object{"where": "far"} })
		if code, o := c.ask(http.MethodPost, pods, p); code != http.StatusCreated {
			c.t.Fatal(code, o)
		}
		o := c.until("far", func(_ int, o object) bool { return at(o, "status", "conditions", 0, "status") == "False" })
		s.add("%v %v", at(o, "status", "conditions", 0, "reason"), at(o, "status", "conditions", 0, "message"))
		s.add("%v", c.events("far", "FailedScheduling"))
		code, _ := c.ask(http.MethodDelete, pods+"/far", nil)
		_, after := c.ask(http.MethodGet, pods+"/far", nil)
		s.add("%d %v", code, after["reason"])
		return s.String()
	}},
	{"a quota", func(c *cluster) string {
		var s story
		quota := "/api/v1/namespaces/parawork/resourcequotas"
		if c.standIn != nil {
			c.standIn.SetQuota(map[string]string{"pods": "0"})
			defer c.standIn.SetQuota(nil)
		} else {
			_, o := c.ask(http.MethodPost, quota, object{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": object{"name": "quota"}, "spec": object{"hard": object{"pods": "0"}}})
			for at(o, "status", "used") == nil {
				_, o = c.ask(http.MethodGet, quota+"/quota", nil)
				time.Sleep(20 * time.Millisecond) // its controller counts first
			}
			defer c.ask(http.MethodDelete, quota+"/quota", nil)
		}
		// How many pods there are depends on when those of before are gone.
		s.add("%s", used.ReplaceAllString(said(c.ask(http.MethodPost, pods, c.pod("over", "exit", nil))), "used: SOME"))
		return s.String()
	}},
	{"a volume outlives a pod", func(c *cluster) string {
		var s story
		code, o := c.ask(http.MethodPost, claims, object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": "disk"},
			"spec": object{"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "folders", "resources": object{"requests": object{"storage": "1Gi"}}}})
		s.add("%d %v %v", code, at(o, "status", "phase"), at(o, "metadata", "finalizers"))
		for i, script := range []string{"echo kept > /disk/f; id -G; stat -c '%g' /disk", "cat /disk/f"} {
			name := fmt.Sprintf("disk%d", i)
			p := c.pod(name, script, func(spec, k object) {
				spec["volumes"] = []any{object{"name": "d", "persistentVolumeClaim": object{"claimName": "disk"}}}
				k["volumeMounts"] = []any{object{"name": "d", "mountPath": "/disk", "subPath": "work"}}
			})
			if code, o := c.ask(http.MethodPost, pods, p); code != http.StatusCreated {
				c.t.Fatal(code, o)
			}
			c.phase(name, "Succeeded")
			_, o := c.ask(http.MethodGet, pods+"/"+name+"/log", nil)
			s.add("%q", fmt.Sprint(o["text"]))
		}
		code, o = c.ask(http.MethodDelete, claims+"/disk", nil)
		s.add("%d %v", code, o["kind"])
		for i := range 2 {
			name := fmt.Sprintf("disk%d", i)
			c.ask(http.MethodDelete, pods+"/"+name, nil)
			c.gone(name)
		}
		for limit := time.Now().Add(time.Minute); code != http.StatusNotFound; {
			if code, o = c.ask(http.MethodGet, claims+"/disk", nil); code != http.StatusNotFound && time.Now().After(limit) {
				c.t.Fatalf("the claim stays: %d %v", code, o)
			}
			time.Sleep(20 * time.Millisecond) // its finalizer goes when no pod needs it
		}
		return s.String()
	}},
}

// TestLives has the stand-in tell what the real one is compared with: nothing of it may fail.
func TestLives(t *testing.T) {
	t.Parallel()
	_, c := standIn(t, kubetest.Config{})
	for _, s := range lives {
		t.Run(s.name, func(t *testing.T) {
			one := *c
			one.t = t
			t.Logf("%s", s.live(&one))
		})
	}
}
