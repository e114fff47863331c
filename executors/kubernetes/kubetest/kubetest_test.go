package kubetest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/kubernetes/kubetest"
)

func standIn(t *testing.T, cfg kubetest.Config) (*kubetest.Server, *cluster) {
	t.Helper()
	s := kubetest.New(t, cfg)
	c := clusterOf(t, s.Kubeconfig(), kubetest.Tools)
	c.standIn = s
	return s, c
}

// TestLife takes a pod from its creation to its end.
func TestLife(t *testing.T) {
	t.Parallel()
	_, c := standIn(t, kubetest.Config{})
	c.running(c.pod("a", "trap 'exit 0' TERM; echo up; echo $$ > /tmp/pid; while :; do sleep 0.05; done", nil))
	out, errs, status := c.exec("a", "hello", "/bin/sh", "-c", "cat; cat /tmp/pid; id -u; echo no >&2; exit 7")
	if out != "hello1\n1000\n" || errs != "no\n" || at(status, "reason") != "NonZeroExitCode" || at(status, "details", "causes", 0, "message") != "7" {
		t.Errorf("exec: %q %q %v", out, errs, status)
	}
	if code, o := c.ask(http.MethodGet, pods+"/a/log", nil); code != http.StatusOK || o["text"] != "up\n" {
		t.Errorf("log: %d %v", code, o)
	}
	if code, o := c.ask(http.MethodDelete, pods+"/a", nil); code != http.StatusOK || at(o, "metadata", "deletionTimestamp") == nil {
		t.Errorf("delete: %d %v", code, o)
	}
	c.gone("a")
}

// TestFaults shows what each knob does to a pod.
func TestFaults(t *testing.T) {
	t.Parallel()
	s, c := standIn(t, kubetest.Config{})
	sleep := "exec sleep 3600"
	c.running(c.pod("oom", sleep, nil))
	s.OOMKill("oom")
	if o := c.phase("oom", "Failed"); at(o, "status", "containerStatuses", 0, "state", "terminated", "reason") != "OOMKilled" {
		t.Errorf("killed for want of memory: %v", o["status"])
	}
	c.running(c.pod("evicted", sleep, nil))
	s.Evict("evicted", "")
	if o := c.phase("evicted", "Failed"); at(o, "status", "reason") != "Evicted" {
		t.Errorf("evicted: %v", o["status"])
	}
	if code, o := c.ask(http.MethodPost, pods, c.pod("image", sleep, func(_, k object) { k["image"] = "example.invalid/none:1" })); code != http.StatusCreated {
		t.Fatal(code, o)
	}
	c.until("image", func(_ int, o object) bool {
		return at(o, "status", "containerStatuses", 0, "state", "waiting", "reason") == "ErrImagePull"
	})
	s.AddImage("example.invalid/none:1", kubetest.Image{})
	c.phase("image", "Running")
	s.SetQuota(map[string]string{"pods": "1"})
	if code, o := c.ask(http.MethodPost, pods, c.pod("over", sleep, nil)); code != http.StatusForbidden || !strings.Contains(said(code, o), "exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1") {
		t.Errorf("over the quota: %s", said(code, o))
	}
	s.SetQuota(nil)
	s.LoseCreateAnswers(1)
	if _, _, err := c.try(t.Context(), http.MethodPost, pods, c.pod("lost", sleep, nil)); err == nil {
		t.Error("the answer was not lost")
	}
	c.phase("lost", "Running")
	if err := s.RestartAPI(0); err != nil {
		t.Fatal(err)
	}
	c.phase("lost", "Running")
	s.Drain("node-1")
	c.gone("lost")
	c.gone("image")
	if code, o := c.ask(http.MethodPost, pods, c.pod("late", sleep, nil)); code != http.StatusCreated {
		t.Fatal(code, o)
	}
	if o := c.until("late", func(_ int, o object) bool { return at(o, "status", "conditions", 0, "status") == "False" }); !strings.Contains(at(o, "status", "conditions", 0, "message").(string), "1 node(s) were unschedulable") {
		t.Errorf("without a node: %v", o["status"])
	}
	s.Cordon("node-1", false)
	c.phase("late", "Running")
	s.RevokeToken()
	if code, o := c.ask(http.MethodGet, pods, nil); said(code, o) != "401 Unauthorized: Unauthorized" {
		t.Errorf("with a revoked token: %s", said(code, o))
	}
}
