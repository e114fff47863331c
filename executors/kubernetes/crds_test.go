package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/kubernetes"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/testing/testkubernetes"
)

// crdsEnv names a folder with the CRDs of agent-sandbox (its k8s/crds), which are not part of this repository.
const crdsEnv = "PARAWORK_TEST_AGENT_SANDBOX"

// testCRDs has a real API server with the real CRDs judge what is printed for a pool, what a claim is made as, and how a Sandbox is suspended. Their
// controller does not run there.
func testCRDs(t *testing.T, n *testkubernetes.Node) {
	dir := os.Getenv(crdsEnv)
	if dir == "" {
		t.Skip("set " + crdsEnv + " to the folder k8s/crds of agent-sandbox")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("CRDs: %v, %v", files, err)
	}
	ctx := t.Context()
	do := func(method, path string, in, out any) error {
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		return n.Do(ctx, method, path, string(b), out)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd map[string]any
		if err := yaml.Unmarshal(b, &crd); err != nil {
			t.Fatal(err)
		}
		spec := crd["spec"].(map[string]any)
		delete(spec, "conversion") // which its controller serves; so there is one version
		for _, v := range spec["versions"].([]any) {
			if v.(map[string]any)["name"] == "v1beta1" {
				spec["versions"] = []any{v}
			}
		}
		if err := do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd, nil); err != nil {
			t.Fatalf("%s: %.600s", file, err)
		}
	}
	const strict = "?fieldValidation=Strict"
	path := func(group, kind string) string {
		return "/apis/" + group + "/v1beta1/namespaces/" + testkubernetes.Namespace + "/" + kind
	}
	kinds := map[string]string{"SandboxTemplate": path("extensions.agents.x-k8s.io", "sandboxtemplates"), "SandboxWarmPool": path("extensions.agents.x-k8s.io", "sandboxwarmpools")}
	claims, boxes := path("extensions.agents.x-k8s.io", "sandboxclaims"), path("agents.x-k8s.io", "sandboxes")
	for _, p := range append([]string{claims, boxes}, kinds["SandboxTemplate"], kinds["SandboxWarmPool"]) {
		soon(t, p+" is served", func() bool { return n.Do(ctx, http.MethodGet, p, "", nil) == nil })
	}

	var printed bytes.Buffer
	err = kubernetes.Descriptor().Verbs[0].Run(ctx, executors.CommandLine{Output: &printed, Parse: func(fs *flag.FlagSet, args []string) error { return fs.Parse(args) },
		Config: func(string) (schema.Values, string, error) {
			return kubernetes.Descriptor().Settings.Defaults(), "", nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal(printed.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if err := do(http.MethodPost, kinds[o["kind"].(string)]+strict, o, nil); err != nil {
			t.Errorf("%s: %.2000s", o["kind"], err)
		}
	}

	e, err := kubernetes.New(kubernetes.Config{Dir: t.TempDir(), GuestPath: guestPath(t), Settings: func(context.Context) (kubernetes.Settings, error) {
		return kubernetes.Settings{Kubeconfig: n.Kubeconfig, Namespace: testkubernetes.Namespace, Image: testkubernetes.Image, KeepDisk: true, NetworkPolicy: true, WarmPool: "parawork", StartWithin: 2 * patience}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	cctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	made := make(chan error, 1)
	go func() { // ends with cctx
		_, err := e.Create(cctx, executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: "ws_1", Root: executortest.GitRoot(t), Inside: "/work/thing"})
		made <- err
	}()
	var got struct{ Items []map[string]any }
	soon(t, "a claim is made", func() bool { return n.Do(ctx, http.MethodGet, claims, "", &got) == nil && len(got.Items) == 1 })
	want := map[string]any{"warmPoolRef": map[string]any{"name": "parawork"}, "lifecycle": map[string]any{"shutdownPolicy": "Delete"}}
	if spec := got.Items[0]["spec"]; !reflect.DeepEqual(spec, any(want)) {
		t.Errorf("of the claim is kept: %v", spec)
	}
	cancel() // nobody serves it
	select {
	case err := <-made:
		if err == nil {
			t.Error("a claim without a controller is served")
		}
	case <-time.After(patience):
		t.Fatal("Create does not end")
	}

	// A Sandbox as the controller makes it of the template, and how it is suspended.
	spec := maps.Clone(list.Items[0]["spec"].(map[string]any))
	maps.DeleteFunc(spec, func(k string, _ any) bool { return k != "podTemplate" && k != "volumeClaimTemplates" })
	box := map[string]any{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": map[string]any{"name": "warm-1"}, "spec": spec}
	if err := do(http.MethodPost, boxes+strict, box, nil); err != nil {
		t.Errorf("a Sandbox of the template: %.2000s", err)
	}
	for _, mode := range []string{"Suspended", "Running"} {
		if err := kubernetes.Mode(ctx, e, "warm-1", mode); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		var now struct {
			Spec struct{ OperatingMode string }
		}
		if err := n.Do(ctx, http.MethodGet, boxes+"/warm-1", "", &now); err != nil || now.Spec.OperatingMode != mode {
			t.Errorf("it is %q, %v", now.Spec.OperatingMode, err)
		}
	}
	for _, p := range []string{boxes + "/warm-1", kinds["SandboxWarmPool"] + "/parawork", kinds["SandboxTemplate"] + "/parawork"} {
		if err := n.Do(ctx, http.MethodDelete, p, "", nil); err != nil {
			t.Error(err)
		}
	}
}
