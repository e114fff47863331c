package e2btest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest"
)

func TestTheControlPlaneRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{Plan: e2btest.Plan{MaxRun: time.Hour}, Templates: []e2btest.Template{{Name: "base", CPUs: 1, MemoryMB: 512, Tags: []string{"v1"}},
		{Name: "theirs", CPUs: 1, MemoryMB: 512, Foreign: true}}})
	no, yes := false, true
	for name, c := range map[string]struct {
		path   string
		body   any
		status int
		words  string
	}{
		"no body":               {"/v2/sandboxes", nil, 400, "value is required"},
		"no JSON":               {"/v2/sandboxes", "{", 400, "validation error"},
		"two values":            {"/v2/sandboxes", `{"templateID":"base"} {}`, 400, "more than one"},
		"no template":           {"/v2/sandboxes", m{"timeout": 60}, 400, "templateID"},
		"an unknown field":      {"/v2/sandboxes", m{"templateID": "base", "timeout": 60, "autopause": true}, 400, "unknown field"},
		"secure in version 2":   {"/v2/sandboxes", m{"templateID": "base", "secure": true}, 400, "unknown field"},
		"a number as metadata":  {"/v2/sandboxes", m{"templateID": "base", "metadata": m{"a": 1}}, 400, "validation error"},
		"timeout 0":             {"/v2/sandboxes", m{"templateID": "base", "timeout": 0}, 400, "Timeout"},
		"a negative timeout":    {"/v2/sandboxes", m{"templateID": "base", "timeout": -1}, 400, "Timeout"},
		"beyond the plan":       {"/v2/sandboxes", m{"templateID": "base", "timeout": 3601}, 400, "Timeout cannot be greater than 1 hours"},
		"no such template":      {"/v2/sandboxes", m{"templateID": "nothing"}, 404, "template 'nothing' not found"},
		"no such tag":           {"/v2/sandboxes", m{"templateID": "base:v2"}, 404, "tag 'v2' does not exist for template 'base'"},
		"another team's":        {"/v2/sandboxes", m{"templateID": "theirs"}, 403, "access"},
		"a bad name":            {"/v2/sandboxes", m{"templateID": "ba se"}, 400, "Invalid"},
		"disk without pause":    {"/v2/sandboxes", m{"templateID": "base", "autoPauseMemory": no}, 400, "autoPause"},
		"disk and resume":       {"/v2/sandboxes", m{"templateID": "base", "autoPause": yes, "autoPauseMemory": no, "autoResume": m{"enabled": yes}}, 400, "autoResume"},
		"names need a wall":     {"/v2/sandboxes", m{"templateID": "base", "network": m{"allowOut": []string{"a.example"}}}, 400, "0.0.0.0/0"},
		"names are not denied":  {"/v2/sandboxes", m{"templateID": "base", "network": m{"denyOut": []string{"a.example"}}}, 400, "denied"},
		"a port is no name":     {"/v2/sandboxes", m{"templateID": "base", "network": m{"allowOut": []string{"a.example:443"}, "denyOut": []string{"0.0.0.0/0"}}}, 400, "domain"},
		"private needs secure":  {"/sandboxes", m{"templateID": "base", "timeout": 60, "network": m{"allowPublicTraffic": no}}, 400, "secure"},
		"a proxy":               {"/v2/sandboxes", m{"templateID": "base", "network": m{"egressProxy": m{"address": "a:1"}}}, 403, "feature"},
		"a bad variable":        {"/v2/sandboxes", m{"templateID": "base", "envVars": m{"A=B": "c"}}, 400, "variable"},
		"no sandbox":            {"/sandboxes/inothing/pause", nil, 404, "doesn't exist or you don't have access to it"},
		"no id":                 {"/sandboxes/UPPER!/pause", nil, 400, "Invalid sandbox ID"},
		"no path":               {"/v9/sandboxes", m{}, 404, "no matching operation was found"},
		"no operation":          {"/templates/aliases/base", m{}, 400, "method not allowed"},
		"v1 connect wants time": {"/sandboxes/inothing/connect", m{}, 400, "timeout"},
	} {
		a, err := r.try("POST", c.path, c.body)
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Code    int
			Message string
		}
		a.into(t, &e)
		if a.status != c.status || e.Code != c.status || !strings.Contains(e.Message, c.words) {
			t.Errorf("%s: %d %s, want %d and %q", name, a.status, a.body, c.status, c.words)
		}
	}
	for key, words := range map[string]string{"": "authorization header is missing", "abc": "malformed", "e2b_" + strings.Repeat("0", 40): "Invalid API key"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.APIURL()+"/v2/sandboxes", nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("X-API-Key", key)
		}
		if a, err := do(req); err != nil || a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), words) {
			t.Errorf("key %q: %d %s, %v", key, a.status, a.body, err)
		}
	}
	if len(r.All()) != 0 {
		t.Errorf("a refusal has made %+v", r.All())
	}
}

func TestTheFirstVersionsDefaultsAreDangerous(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	var open made
	r.call(http.StatusCreated, "POST", "/sandboxes", m{"templateID": "base"}).into(t, &open)
	one := r.All()[0]
	if open.EnvdAccessToken != "" || one.Secure || one.EndAt.Sub(one.StartedAt) != 15*time.Second {
		t.Errorf("%+v, %+v", open, one)
	}
	b := &box{made: open, rig: r}
	b.sh("true")
	var safe made
	r.call(http.StatusCreated, "POST", "/sandboxes", m{"templateID": "base", "timeout": 60, "secure": true}).into(t, &safe)
	if safe.EnvdAccessToken == "" {
		t.Errorf("%+v", safe)
	}
}

func TestAnOldServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{Old: true})
	if a, _ := r.try("POST", "/v2/sandboxes", m{"templateID": "base"}); a.status != 400 || !strings.Contains(string(a.body), "validation error: method not allowed") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a, _ := r.try("POST", "/v2/sandboxes/ix/connect", m{}); a.status != 404 || !strings.Contains(string(a.body), "validation error: no matching operation was found") {
		t.Errorf("%d %s", a.status, a.body)
	}
	var b made
	r.call(http.StatusCreated, "POST", "/sandboxes", m{"templateID": "base", "timeout": 60, "secure": true}).into(t, &b)
	r.call(http.StatusOK, "POST", "/sandboxes/"+b.SandboxID+"/connect", m{"timeout": 60})
	r.call(http.StatusOK, "GET", "/v2/sandboxes", nil)
}

func TestLists(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	var ids []string
	for i := range 3 {
		b := r.create(m{"metadata": m{"odd key": "a&b=c", "n": fmt.Sprint(i)}})
		ids = append(ids, b.SandboxID)
	}
	r.call(http.StatusNoContent, "POST", "/sandboxes/"+ids[0]+"/pause", nil)
	type listed struct {
		SandboxID, State string
		Metadata         map[string]string
	}
	get := func(query url.Values) ([]string, http.Header) {
		t.Helper()
		a := r.call(http.StatusOK, "GET", "/v2/sandboxes?"+query.Encode(), nil)
		var all []listed
		a.into(t, &all)
		var out []string
		for _, l := range all {
			out = append(out, l.SandboxID)
		}
		return out, a.header
	}
	all, h := get(nil)
	if !slices.Equal(all, []string{ids[2], ids[1], ids[0]}) || h.Get("X-Total-Running") != "2" || h.Get("X-Next-Token") != "" {
		t.Errorf("%v, %v", all, h)
	}
	twice := url.Values{"odd key": {"a&b=c"}}.Encode()
	if got, _ := get(url.Values{"metadata": {twice}}); len(got) != 3 {
		t.Errorf("by metadata: %v", got)
	}
	if got, _ := get(url.Values{"metadata": {"odd key=a&b=c"}}); len(got) != 0 {
		t.Errorf("by metadata encoded once: %v", got)
	}
	if got, _ := get(url.Values{"metadata": {"n=1"}, "state": {"running"}}); !slices.Equal(got, []string{ids[1]}) {
		t.Errorf("one: %v", got)
	}
	if got, _ := get(url.Values{"template": {"other"}}); len(got) != 0 {
		t.Errorf("by an unknown template: %v", got)
	}
	var paged []string
	query := url.Values{"limit": {"1"}, "order": {"asc"}}
	for pages := 0; ; pages++ {
		got, h := get(query)
		paged = append(paged, got...)
		if h.Get("X-Next-Token") == "" {
			break
		}
		query.Set("nextToken", h.Get("X-Next-Token"))
	}
	if !slices.Equal(paged, ids) {
		t.Errorf("pages: %v", paged)
	}
	var old []listed
	r.call(http.StatusOK, "GET", "/sandboxes", nil).into(t, &old)
	if len(old) != 2 {
		t.Errorf("version 1 lists %v", old)
	}
	for _, bad := range []string{"limit=0", "limit=101", "state=dead", "order=up", "startedAfter=x", "nextToken=*", "metadat=a"} {
		r.call(http.StatusBadRequest, "GET", "/v2/sandboxes?"+bad, nil)
	}
	var d struct {
		State, EnvdAccessToken string
		EndAt                  time.Time
		Lifecycle              struct{ OnTimeout string }
	}
	r.call(http.StatusOK, "GET", "/sandboxes/"+ids[0]+"-6532622b", nil).into(t, &d)
	if d.State != "paused" || d.EnvdAccessToken == "" || d.Lifecycle.OnTimeout != "kill" || d.EndAt.After(time.Now().Add(time.Minute)) {
		t.Errorf("%+v", d)
	}
	r.call(http.StatusNotFound, "GET", "/sandboxes/inothing", nil)
}

func TestTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{Plan: e2btest.Plan{MaxRun: time.Hour}})
	killed, kept := r.create(m{"timeout": 60}), r.create(m{"timeout": 60, "autoPause": true})
	left := func(b *box) time.Duration {
		for _, one := range r.All() {
			if one.ID == b.SandboxID {
				return one.EndAt.Sub(one.StartedAt)
			}
		}
		return 0
	}
	r.call(http.StatusNoContent, "POST", "/sandboxes/"+kept.SandboxID+"/refreshes", m{"duration": 1})
	if d := left(kept); d != time.Minute {
		t.Errorf("a refresh has shortened it to %v", d)
	}
	r.call(http.StatusBadRequest, "POST", "/sandboxes/"+kept.SandboxID+"/refreshes", m{"duration": 3601})
	r.call(http.StatusBadRequest, "POST", "/sandboxes/"+kept.SandboxID+"/timeout", m{})
	r.call(http.StatusBadRequest, "POST", "/sandboxes/"+kept.SandboxID+"/timeout", m{"timeout": 3601})
	r.call(http.StatusOK, "POST", "/v2/sandboxes/"+kept.SandboxID+"/connect", m{"timeout": 5})
	if d := left(kept); d != time.Minute {
		t.Errorf("connecting has shortened it to %v", d)
	}
	r.Advance(61 * time.Second)
	if killed.state() != "gone" || kept.state() != "paused" {
		t.Fatalf("they are %s and %s", killed.state(), kept.state())
	}
	r.call(http.StatusNotFound, "GET", "/sandboxes/"+killed.SandboxID, nil)
	r.call(http.StatusCreated, "POST", "/v2/sandboxes/"+kept.SandboxID+"/connect", m{"timeout": 1800})
	r.Advance(29 * time.Minute)
	r.call(http.StatusNoContent, "POST", "/sandboxes/"+kept.SandboxID+"/timeout", m{"timeout": 3600})
	if d := left(kept); d != time.Hour {
		t.Errorf("its run may last %v, the plan's is an hour", d)
	}
	r.call(http.StatusNoContent, "POST", "/sandboxes/"+kept.SandboxID+"/timeout", m{"timeout": 0})
	eventually(t, "a timeout of 0 ends it", func() bool { return kept.state() == "paused" })
	r.call(http.StatusNoContent, "DELETE", "/sandboxes/"+kept.SandboxID, nil)
	short := r.create(m{"timeout": 1})
	eventually(t, "it ends without a clock being moved", func() bool { return short.state() == "gone" })
}

func TestThePlansLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{Plan: e2btest.Plan{Concurrent: 1}})
	b := r.create(nil)
	a, _ := r.try("POST", "/v2/sandboxes", m{"templateID": "base"})
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "" || !strings.Contains(string(a.body), "maximum number of concurrent E2B sandboxes (1)") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	r.call(http.StatusNoContent, "POST", "/sandboxes/"+b.SandboxID+"/pause", nil)
	other := r.create(nil)
	r.call(http.StatusTooManyRequests, "POST", "/v2/sandboxes/"+b.SandboxID+"/connect", nil)
	r.call(http.StatusNoContent, "DELETE", "/sandboxes/"+other.SandboxID, nil)
	r.call(http.StatusCreated, "POST", "/v2/sandboxes/"+b.SandboxID+"/connect", nil)
	r.call(http.StatusConflict, "POST", "/sandboxes/"+b.SandboxID+"/resume", m{})
	r.SetPlan(e2btest.Plan{PerSecond: 1})
	limited := false
	for range 5 {
		a, _ := r.try("POST", "/v2/sandboxes", m{"templateID": "base", "timeout": 60})
		limited = limited || a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") == "1" && strings.Contains(string(a.body), "Rate limit exceeded")
	}
	if !limited {
		t.Error("five at once are not too many")
	}
}

func TestNetworkAndMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	b := r.create(m{"allow_internet_access": false})
	path := "/sandboxes/" + b.SandboxID
	r.call(http.StatusNoContent, "PUT", path+"/network", m{"allowOut": []string{"*.example.com", "10.0.0.0/8"}, "denyOut": []string{"0.0.0.0/0"}})
	r.call(http.StatusBadRequest, "PUT", path+"/network", m{"allowOut": []string{"example.com"}})
	if n := r.All()[0].Network; n == nil || len(n.AllowOut) != 2 {
		t.Errorf("%+v", n)
	}
	r.call(http.StatusNoContent, "PUT", path+"/network", m{})
	if n := r.All()[0].Network; n == nil || len(n.AllowOut)+len(n.DenyOut) != 0 {
		t.Errorf("what is left out is not cleared: %+v", n)
	}
	var one []struct{ CPUCount, MemTotal, MemUsed int64 }
	r.call(http.StatusOK, "GET", path+"/metrics", nil).into(t, &one)
	if len(one) != 1 || one[0].CPUCount != 2 || one[0].MemTotal != 512<<20 || one[0].MemUsed == 0 {
		t.Errorf("%+v", one)
	}
	var many struct{ Sandboxes map[string]any }
	r.call(http.StatusOK, "GET", "/sandboxes/metrics?sandbox_ids="+b.SandboxID, nil).into(t, &many)
	if len(many.Sandboxes) != 1 {
		t.Errorf("%+v", many)
	}
	r.call(http.StatusBadRequest, "GET", "/sandboxes/metrics", nil)
	if out, _ := b.sh("ls /sys/class/net /proc/net/route >/dev/null 2>&1; wc -l < /proc/net/route"); strings.TrimSpace(out) != "1" {
		t.Errorf("there are ways out: %q", out)
	}
}
