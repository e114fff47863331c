package kubernetes_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/kubernetes"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/testing/testkubernetes"
)

// TestKubernetesNode runs the suite, and what a stand-in could be wrong about, on a real node.
func TestKubernetesNode(t *testing.T) {
	n, err := testkubernetes.Start()
	if err != nil {
		testkubernetes.Skip(t, err)
	}
	t.Cleanup(n.Stop)
	executor := func(t *testing.T, dir string, image string) *kubernetes.Executor {
		e, err := kubernetes.New(kubernetes.Config{Dir: dir, GuestPath: guestPath(t), Settings: func(context.Context) (kubernetes.Settings, error) {
			return kubernetes.Settings{Kubeconfig: n.Kubeconfig, Namespace: testkubernetes.Namespace, Image: image, KeepDisk: true, NetworkPolicy: true, DiskGB: 1,
				StorageClass: testkubernetes.StorageClass, CPUs: 1, MemoryMB: 256, RequestCPU: 1, RequestMemory: 25, StartWithin: patience}, nil
		}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		return e
	}
	t.Run("suite", func(t *testing.T) {
		executortest.Run(t, executortest.Config{Abilities: []string{"Callee", "RemnantKeeper", "Remover", "RunRecorder", "Sleeper", "Warmer"}, SandboxAbilities: []string{"Pauser", "SinglePipe"},
			Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor { return executor(t, dir, testkubernetes.Image) }})
	})
	spec := func(t *testing.T) executors.Spec {
		return executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: "ws_1", Root: executortest.GitRoot(t), Inside: "/work/thing"}
	}
	t.Run("an image that is not there", func(t *testing.T) {
		_, err := executor(t, t.TempDir(), "parawork.invalid/none:1").Create(t.Context(), spec(t))
		if err == nil || !strings.Contains(err.Error(), "cannot get the image") {
			t.Errorf("Create: %v", err)
		}
	})
	t.Run("agent-sandbox takes what is made", func(t *testing.T) { testCRDs(t, n) })
	t.Run("the API server is started again", func(t *testing.T) {
		sb, err := executor(t, t.TempDir(), testkubernetes.Image).Create(t.Context(), spec(t))
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Destroy(context.WithoutCancel(t.Context()))
		c := client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now, OnePipe: true})
		defer c.Close()
		before, err := c.Hello(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := n.RestartAPI(); err != nil {
			t.Fatal(err)
		}
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		soon(t, "the guest is reached again", func() bool {
			after, err := c.Hello(t.Context())
			return err == nil && after.Root == before.Root
		})
	})
	var left struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := n.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/"+testkubernetes.Namespace+"/pods", "", &left); err != nil || len(left.Items) != 0 {
		t.Errorf("left in the cluster: %v, %v", left.Items, err)
	}
}
