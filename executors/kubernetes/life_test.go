package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/kubernetes"
	"github.com/parawork/parawork/executors/kubernetes/kubetest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
)

func TestAPodIsConfinedAndTellsNoSecret(t *testing.T) {
	p := newPlace(t, kubetest.Config{}, nil) // its namespace is held to the restricted standard
	if got := p.run("pwd; echo $GIVEN; echo $HOME; id -u; env | grep -c KUBERNETES; ls -a /run/parawork"); !strings.HasPrefix(got, "/work/thing\nto-all\n/home/user\n1000\n0\n") ||
		strings.Contains(got, "boot-file") {
		t.Errorf("inside: %q", got)
	}
	for _, r := range p.s.Requests() {
		if strings.Contains(r.Body, p.sb.Token()) || strings.Contains(r.Query, p.sb.Token()) {
			t.Errorf("the guest's secret is in %s %s", r.Method, r.Path)
		}
	}
	if strings.Contains(string(p.sb.Handle().State), p.sb.Token()) {
		t.Error("the guest's secret is in the handle")
	}
}

func TestPausedFilesStayAndProgramsEnd(t *testing.T) {
	p := newPlace(t, kubetest.Config{}, nil)
	p.run("echo kept > file; echo kept > $HOME/file")
	pauser := p.sb.(executors.Pauser)
	for range 2 {
		if err := pauser.Pause(p.ctx); err != nil {
			t.Fatalf("Pause: %v", err)
		}
	}
	if pods := p.s.Pods(); len(pods) != 0 {
		t.Errorf("pods of a paused sandbox: %v", pods)
	}
	if still, err := p.e.Asleep(p.ctx, p.sb.Handle()); !still || err != nil || p.e.AsleepBecause(p.spec.ID) != "" {
		t.Errorf("Asleep: %v, %v, %q", still, err, p.e.AsleepBecause(p.spec.ID))
	}
	if err := pauser.Resume(p.ctx); err != nil {
		t.Fatalf("Resume: %v", err)
	}
	p.use(p.sb)
	if got := p.run("cat file $HOME/file; echo $GIVEN"); got != "kept\nkept\nto-all\n" {
		t.Errorf("after the pause: %q", got)
	}
}

// A server that was killed while it woke a sandbox left a pod without a guest in it.
func TestAKilledWakingGoesOn(t *testing.T) {
	p := newPlace(t, kubetest.Config{}, nil)
	p.run("echo kept > file")
	if err := kubernetes.HalfWake(p.ctx, p.e, p.sb); err != nil {
		t.Fatal(err)
	}
	p.recover(newExecutor(t, p.s, p.dir, nil))
	if got := p.run("cat file"); got != "kept\n" {
		t.Errorf("its file: %q", got)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	executortest.Faults(t, func(t *testing.T) executortest.Service {
		dir := t.TempDir()
		s := newServer(t, kubetest.Config{Dir: dir})
		usual, token := settings(s), s.Token()
		usual.StartWithin = 5 * patience // many pods at once on a busy machine
		return executortest.Service{Disks: dir, Left: func() []string { return append(s.Pods(), s.Claims()...) }, Lose: func() { s.LoseCreateAnswers(1) },
			Down: func() { s.Fail(kubetest.Fault{Times: -1, Status: 503}) },
			Executor: func(t *testing.T, dir string, now func() time.Time) executors.Executor {
				return newAt(t, func() kubernetes.Settings { return usual }, dir, now)
			},
			Refuse: map[string]func(){"bad_key": s.RevokeToken, "rights": func() { s.Forbid("create pods") }, "quota": func() { s.SetQuota(map[string]string{"pods": "1"}) },
				"image": func() { s.RemoveImage(withGuest) }},
			Ends: map[string]executortest.End{"out of memory": {Do: func() { s.OOMKill(s.Pods()[0]) }, Kept: true, Says: "OOMKilled"},
				"a full node": {Do: func() { s.Evict(s.Pods()[0], "") }, Kept: true, Says: "low on resource: memory"},
				"a drained node": {Do: func() {
					s.Drain("node-1")
					soon(t, "the pod is gone", func() bool { return len(s.Pods()) == 0 })
					s.Cordon("node-1", false)
				}, Kept: true, Says: "drained"}},
			Restart: func() {
				if err := s.RestartAPI(300 * time.Millisecond); err != nil {
					t.Fatal(err)
				}
			},
			Cut: s.CutStreamsEvery,
			Heal: func() {
				s.Heal()
				s.SetQuota(nil)
				s.SetToken(token)
				s.AddImage(withGuest, guestImage(t))
			}}
	})
}

func TestWithoutAVolumeAPodThatEndedIsGone(t *testing.T) {
	p := newPlace(t, kubetest.Config{}, func(s *kubernetes.Settings) {
		s.KeepDisk, s.Image = false, kubetest.Tools // which has no guest: it is brought
	})
	p.s.OOMKill(p.pod())
	_, err := p.e.Recover(p.ctx, p.sb.Handle())
	if !errors.Is(err, executors.ErrGone) || !strings.Contains(executors.WhyGone(err, ""), "OOMKilled") {
		t.Errorf("Recover: %v", err)
	}
}

// What a server left that died in the middle of a creation is found by its labels, also without its folder.
func TestStraysAreListedAndEnded(t *testing.T) {
	p := newPlace(t, kubetest.Config{}, nil)
	other := newExecutor(t, p.s, t.TempDir(), nil) // another server
	if list, err := other.List(p.ctx); err != nil || len(list) != 0 {
		t.Errorf("another server lists %v, %v", list, err)
	}
	if err := kubernetes.Forget(p.e, p.spec.ID); err != nil {
		t.Fatal(err)
	}
	list, err := p.e.List(p.ctx)
	if err != nil || len(list) != 1 || list[0].ID != p.spec.ID {
		t.Fatalf("List: %v, %v", list, err)
	}
	if _, err := p.e.Recover(p.ctx, list[0]); !errors.Is(err, executors.ErrGone) {
		t.Errorf("Recover of a stray: %v", err)
	}
	if pods, claims := p.s.Pods(), p.s.Claims(); len(pods)+len(claims) != 0 {
		t.Errorf("left: %v, %v", pods, claims)
	}
	p.sb = nil
}

func TestWhyTheClusterCannotServe(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    kubetest.Config
		before func(*kubetest.Server)
		change func(*kubernetes.Settings)
		reason kubernetes.Reason
		says   string
	}{
		"the login was revoked": {before: func(s *kubetest.Server) { s.RevokeToken() }, reason: kubernetes.BadKey, says: "Unauthorized"},
		"a right is missing":    {before: func(s *kubetest.Server) { s.Forbid("create pods") }, reason: kubernetes.Rights, says: "cannot create resource"},
		"the namespace's quota": {before: func(s *kubetest.Server) { s.SetQuota(map[string]string{"pods": "0"}) }, reason: kubernetes.Quota, says: "exceeded quota"},
		"no node has room":      {change: func(s *kubernetes.Settings) { s.CPUs, s.RequestCPU, s.StartWithin = 64, 100, time.Second }, reason: kubernetes.Capacity, says: "Insufficient cpu"},
		"no node fits":          {change: func(s *kubernetes.Settings) { s.NodeSelector, s.StartWithin = "a=b", time.Second }, reason: kubernetes.Capacity, says: "node"},
		"the image is missing":  {change: func(s *kubernetes.Settings) { s.Image = "parawork.test/none:1" }, reason: kubernetes.ImageMissing, says: "none:1"},
		"pod security": {before: func(s *kubetest.Server) {
			s.Fail(kubetest.Fault{Match: "POST pods", Status: 403, Message: `pods "x" is forbidden: violates PodSecurity "restricted:latest": seccompProfile`})
		}, reason: kubernetes.Admission, says: "violates PodSecurity"},
		"no such namespace": {change: func(s *kubernetes.Settings) { s.Namespace = "elsewhere" }, reason: kubernetes.NamespaceMissing, says: "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWorld(t, c.cfg, c.change)
			if c.before != nil {
				c.before(p.s)
			}
			_, err := p.e.Create(p.ctx, p.spec)
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != "place_cannot_serve" || f.Details["reason"] != string(c.reason) || f.Details["ways"] == nil {
				t.Fatalf("Create: %v", err)
			}
			if !strings.Contains(f.Message, c.says) {
				t.Errorf("%q is not said: %s", c.says, f.Message)
			}
			p.s.SetQuota(nil)
		})
	}
}

func TestWithoutWebSocketsSPDYServes(t *testing.T) {
	p := newWorld(t, kubetest.Config{}, nil)
	p.s.NoWebSockets(true)
	sb, err := p.e.Create(p.ctx, p.spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	p.use(sb)
	if got := p.run("head -c 3000000 /dev/zero | tr '\\0' x | wc -c"); got != "3000000\n" {
		t.Errorf("over SPDY: %q", got)
	}
}

func TestManyCreationsAtOnceLeaveNothing(t *testing.T) {
	p := newWorld(t, kubetest.Config{}, nil)
	p.s.LoseCreateAnswers(3)
	p.s.Fail(kubetest.Fault{Match: "POST pods", Skip: 2, Times: 3, Status: 429, RetryAfter: 1})
	var all sync.WaitGroup
	boxes := make([]executors.Sandbox, 12)
	for i := range boxes {
		all.Go(func() {
			spec := p.spec
			spec.ID = fmt.Sprintf("sbx_%d", i)
			sb, err := p.e.Create(p.ctx, spec)
			if err != nil {
				t.Errorf("Create of %s: %v", spec.ID, err)
				return
			}
			boxes[i] = sb
		})
	}
	all.Wait()
	if pods := p.s.Pods(); len(pods) != len(boxes) {
		t.Errorf("%d pods of %d sandboxes", len(pods), len(boxes))
	}
	for _, sb := range boxes {
		if sb == nil {
			continue
		}
		all.Go(func() {
			if err := sb.Destroy(p.ctx); err != nil {
				t.Errorf("Destroy: %v", err)
			}
		})
	}
	all.Wait()
}

func TestAWarmPodBecomesSomebodys(t *testing.T) {
	p := newWorld(t, kubetest.Config{}, nil)
	h, err := p.e.Warm(p.ctx, "wrm_1", p.e.Class(p.spec))
	if err != nil {
		t.Fatalf("Warm: %v", err)
	}
	pod := p.pod()
	p.spec.Warm = &h
	sb, err := p.e.Create(p.ctx, p.spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	p.use(sb)
	if got := p.pod(); got != pod {
		t.Errorf("it is served by %s, not %s", got, pod)
	}
	if got := p.run("pwd; echo $GIVEN"); got != "/work/thing\nto-all\n" {
		t.Errorf("inside: %q", got)
	}
	if list, err := p.e.List(p.ctx); err != nil || len(list) != 1 || list[0].ID != p.spec.ID {
		t.Errorf("List: %v, %v", list, err)
	}
	if _, err := p.e.Recover(p.ctx, h); !errors.Is(err, executors.ErrGone) {
		t.Errorf("the warm one is still there: %v", err)
	}
}

func TestTheTestOfSettingsSaysWhatItFound(t *testing.T) {
	t.Parallel()
	s := newServer(t, kubetest.Config{})
	if got, err := kubernetes.Check(t.Context(), settings(s)); err != nil || !strings.Contains(got, "no sandbox runs there now") {
		t.Errorf("Check: %q, %v", got, err)
	}
	for name, change := range map[string]func(*kubernetes.Settings){
		"starts a program": func(set *kubernetes.Settings) {
			set.Kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
				"users: [{name: a, user: {exec: {command: touch, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}}]\n"
		},
		"names a file": func(set *kubernetes.Settings) {
			set.Kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
				"users: [{name: a, user: {tokenFile: /etc/shadow}}]\n"
		},
		"no kubeconfig": func(set *kubernetes.Settings) { set.Kubeconfig = "hello" },
	} {
		set := settings(s)
		change(&set)
		if _, err := kubernetes.Check(t.Context(), set); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The pool that the command line prints has what a sandbox relies on: our own policy alone, and no volume beside the template's.
func TestThePrintedPool(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	verb := kubernetes.Descriptor().Verbs[0]
	v := kubernetes.Descriptor().Settings.Defaults()
	err := verb.Run(t.Context(), executors.CommandLine{Output: &out, Parse: func(fs *flag.FlagSet, args []string) error { return fs.Parse(args) }, Args: []string{"--replicas", "3"},
		Config: func(string) (schema.Values, string, error) { return v, "", nil }})
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Kind string
			Spec struct {
				NetworkPolicyManagement string
				Replicas                int
				VolumeClaimTemplates    []any
				PodTemplate             struct {
					Spec struct{ Volumes []struct{ Name string } }
				}
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || len(list.Items) != 2 {
		t.Fatalf("%v: %s", err, out.String())
	}
	var raw struct{ Items []any }
	if err := json.Unmarshal(out.Bytes(), &raw); err != nil {
		t.Fatal(err)
	}
	if said := wrong(templateRule, raw.Items[0], "template") + wrong(poolRule, raw.Items[1], "pool"); said != "" {
		t.Errorf("the cluster refuses it: %s", said)
	}
	template, pool := list.Items[0].Spec, list.Items[1].Spec
	if template.NetworkPolicyManagement != "Unmanaged" || len(template.VolumeClaimTemplates) != 1 || len(template.PodTemplate.Spec.Volumes) != 1 || pool.Replicas != 3 {
		t.Errorf("printed: %s", out.String())
	}
}
