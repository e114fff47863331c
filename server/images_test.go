package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
)

// fakeBuilder prints what it is given, and waits where the Dockerfile says so.
type fakeBuilder struct{}

func (fakeBuilder) Build(ctx context.Context, o images.Order, log io.Writer) error {
	b, err := io.ReadAll(o.Context)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "Step 1/1 : tag %s, %d bytes\n", o.Tag, len(b))
	if strings.Contains(string(b), "RUN wait") {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (fakeBuilder) Image(_ context.Context, name string) (images.Image, error) {
	return images.Image{ID: "sha256:" + name, Tags: []string{name}}, nil
}

func (fakeBuilder) Public(context.Context, string) (bool, error) { return true, nil }

func (fakeBuilder) Pull(context.Context, string, io.Writer) error { return nil }

func (fakeBuilder) Remove(context.Context, string) error { return nil }

// withRepository gives the people's project a real repository with a Dockerfile.
func (h *harness) withRepository(t *testing.T, projectID, dockerfile string) {
	t.Helper()
	root := executortest.GitRoot(t)
	if err := os.WriteFile(filepath.Join(root, "Dockerfile"), []byte(dockerfile), 0o644); err != nil {
		t.Fatal(err)
	}
	executortest.Git(t, root, "add", "-A")
	executortest.Git(t, root, "commit", "-q", "-m", "an image")
	_, err := store.NewWorkspaces(h.db).EditProject(t.Context(), projectID, func(p *workspaces.Project) error {
		p.GitDir, p.DefaultBranch, p.State, p.SourceKind = filepath.Join(root, ".git"), "main", workspaces.ProjectReady, workspaces.SourcePath
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImagesOfAProject(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	prj, owner := p.ids["project"], p.tokens["owner"]
	h.withRepository(t, prj, "FROM scratch\nRUN wait\n")
	if err := h.cfg.Images.Recover(t.Context()); err != nil { // what people() left open
		t.Fatal(err)
	}
	var o struct {
		Source string
		Image  struct{ Parts []string }
		Parts  []struct {
			Name   string
			SizeMB int `json:"size_mb"`
		}
		Current    *string
		Candidates []struct{ Path, Kind string }
		Builds     []struct{ ID, State string }
	}
	ask := func(method, path, body string, want int, into any) {
		t.Helper()
		r := h.do(method, "/api/v1"+path, body, bearer(owner)...)
		if r.StatusCode != want {
			t.Fatalf("%s %s: %d %s", method, path, r.StatusCode, r.body)
		}
		if into != nil {
			if err := json.Unmarshal([]byte(r.body), into); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask("GET", "/projects/"+prj+"/image", "", 200, &o)
	if o.Source != "server" || len(o.Candidates) != 1 || o.Candidates[0].Path != "Dockerfile" || len(o.Builds) != 1 {
		t.Errorf("image %+v", o)
	}
	ask("PATCH", "/projects/"+prj, `{"image":{"name":"node:22","build":"Dockerfile"}}`, 400, nil)
	ask("PATCH", "/projects/"+prj, `{"image":{"name":"parawork-project-prj_other:x"}}`, 400, nil)
	ask("PATCH", "/projects/"+prj, `{"image":{"build":"../Dockerfile"}}`, 400, nil)
	ask("PATCH", "/projects/"+prj, `{"image":{"build":"Dockerfile","parts":["everything"]}}`, 400, nil)
	ask("PATCH", "/projects/"+prj, `{"image":{"name":"node:22","parts":["browser"]}}`, 400, nil)
	ask("PATCH", "/projects/"+prj, `{"image":{"build":"Dockerfile","parts":["browser"]}}`, 200, nil)
	o.Current = nil
	ask("GET", "/projects/"+prj+"/image", "", 200, &o)
	if o.Source != "build" || o.Current != nil || len(o.Image.Parts) != 1 || o.Image.Parts[0] != "browser" || len(o.Parts) != 4 || o.Parts[0].Name != "code" || o.Parts[0].SizeMB < 50 {
		t.Errorf("image %+v", o)
	}

	var b struct {
		ID, State string
		Reason    string `json:"state_reason"`
		Tag       *string
	}
	ask("POST", "/projects/"+prj+"/image-builds", `{"source":"nope.txt"}`, 400, nil)
	ask("POST", "/projects/"+prj+"/image-builds", `{}`, 201, &b)
	ask("POST", "/projects/"+prj+"/image-builds", `{}`, 409, nil)
	ask("DELETE", "/image-builds/"+b.ID, "", 200, &b)
	if b.State != "cancelled" {
		t.Errorf("cancelled build %+v", b)
	}
	h.withRepository(t, prj, "FROM scratch\n")
	ask("POST", "/projects/"+prj+"/image-builds", `{}`, 201, &b)
	r := h.do("GET", "/api/v1/image-builds/"+b.ID+"/log", "", bearer(owner)...)
	if r.StatusCode != 200 || !strings.Contains(string(r.body), "data: Step 1/1 : tag parawork-project-") || !strings.Contains(string(r.body), "event: end\ndata: {") ||
		!strings.Contains(string(r.body), `"state":"ready"`) {
		t.Errorf("log %d %s", r.StatusCode, r.body)
	}
	ask("GET", "/image-builds/"+b.ID, "", 200, &b)
	ask("GET", "/projects/"+prj+"/image", "", 200, &o)
	if b.Tag == nil || o.Current == nil || *o.Current != *b.Tag {
		t.Errorf("image %+v after build %+v", o, b)
	}
	// A log that has ended is read from the store.
	if again := h.do("GET", "/api/v1/image-builds/"+b.ID+"/log", "", bearer(owner)...); !strings.Contains(string(again.body), "data: Step 1/1") {
		t.Errorf("log %s", again.body)
	}
}
