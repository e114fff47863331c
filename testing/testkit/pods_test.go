package testkit_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/kubernetes/kubetest"
	"github.com/parawork/parawork/testing/testkit"
)

// podSettings are those of a stand-in for Kubernetes, for config.json.
func podSettings(s *kubetest.Server) string {
	return fmt.Sprintf(`"kubernetes":{"kubeconfig":%q,"image":%q,"storageClass":%q,"defaultMemory":512}`, s.Kubeconfig(), kubetest.Tools, kubetest.StorageClass)
}

// A workspace in a pod, from its first command to its merge: the server is killed, execs are cut, it moves to this server and back, and
// nothing of it stays in the cluster.
func TestAWorkspaceLivesInAPod(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t, kubetest.Config{})
	t.Cleanup(func() {
		if pods, claims := s.Pods(), s.Claims(); len(pods)+len(claims) > 0 {
			t.Errorf("left in the cluster: pods %v, claims %v", pods, claims)
		}
	})
	h := testkit.Start(t, `"sandboxing":{"defaultProvider":"kubernetes","local":{"enabled":true},`+podSettings(s)+`}`)
	ws := h.Workspace(h.Sample(), "Pod")
	run := h.Run(ws.ID, "sh", "-c", `for i in $(seq 400); do echo "line $i"; [ $((i%10)) -ne 0 ] || sleep 0.02; done; echo kept > kept; until [ -e go ]; do sleep 0.02; done; echo END`)
	h.Wait("it runs", func() bool { return bytes.Contains(h.Output(run.ID, 0), []byte("line 50")) })
	s.CutStreams()
	h.Kill()
	h.Boot()
	var done command
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "id -u; echo $PPID; touch go", "timeout_ms": 60000}, &done)
	if done.ExitCode == nil || *done.ExitCode != 0 || !strings.HasPrefix(done.Stdout, "1000\n1\n") {
		t.Errorf("beside it: %+v", done)
	}
	if got := h.Ended(run.ID); got.State != "exited" || got.ExitCode == nil || *got.ExitCode != 0 {
		t.Fatalf("%+v\n%s", got, h.Output(run.ID, 0))
	}
	if n := strings.Count(string(h.Output(run.ID, 0)), "line "); n != 400 {
		t.Errorf("%d of 400 lines arrived", n)
	}
	for _, to := range []string{"local", "kubernetes"} {
		h.API("POST", "/workspaces/"+ws.ID+"/move", map[string]any{"to": to}, nil)
		if m := moved(t, h, ws.ID); m.State != "done" || executorOf(h, ws.ID) != to {
			t.Fatalf("to %s: %+v", to, m)
		}
		h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "cat kept && echo " + to + " >> way", "timeout_ms": 60000}, &done)
		if done.ExitCode == nil || *done.ExitCode != 0 || done.Stdout != "kept\n" {
			t.Fatalf("in %s: %+v", to, done)
		}
	}
	h.API("POST", "/workspaces/"+ws.ID+"/commit", map[string]any{"message": "Travel", "paths": []string{"kept", "way"}}, nil)
	var merged struct{ Merged bool }
	h.API("POST", "/workspaces/"+ws.ID+"/merge", map[string]any{"strategy": "merge"}, &merged)
	if !merged.Merged {
		t.Error("it was not merged")
	}
	h.API("DELETE", "/workspaces/"+ws.ID+"?force=true", nil, nil)
}
