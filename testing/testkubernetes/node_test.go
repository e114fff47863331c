package testkubernetes_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/testkubernetes"
)

// TestKubernetesNode starts a pod, as strict as a namespace may want it, on a node of its own.
func TestKubernetesNode(t *testing.T) {
	n, err := testkubernetes.Start()
	if err != nil {
		testkubernetes.Skip(t, err)
	}
	t.Cleanup(n.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pods := "/api/v1/namespaces/" + testkubernetes.Namespace + "/pods"
	if err := n.Do(ctx, http.MethodPost, pods, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"restartPolicy": "Never",
		"automountServiceAccountToken": false, "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
		"containers": [{"name": "c", "image": "`+testkubernetes.Image+`", "command": ["git", "init", "/tmp/x"], "resources": {"requests": {"cpu": "10m"}},
			"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`, nil); err != nil {
		t.Fatal(err)
	}
	var pod struct{ Status struct{ Phase string } }
	for pod.Status.Phase != "Succeeded" {
		if err := n.Do(ctx, http.MethodGet, pods+"/a", "", &pod); err != nil {
			t.Fatalf("it is %s: %v", pod.Status.Phase, err)
		}
		if pod.Status.Phase == "Failed" {
			t.Fatal(errors.New("git failed in a pod"))
		}
		time.Sleep(50 * time.Millisecond) // one look is cheaper than a watch
	}
}
