package images_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces/assembly"
)

// workshop is the package over a real repository, with a builder that looks at what it is given.
type workshop struct {
	t        *testing.T
	db       *store.DB
	root     string
	repos    *assembly.Workspaces
	svc      *images.Service
	orders   chan given
	carryOut func(ctx context.Context, o images.Order, log io.Writer) error
	removed  []string
	have     map[string]images.Image // on the engine, by name; others are fetched
	public   map[string]bool         // what registries give to everybody
	fetched  []string
}

// Image finds an image by its name; x, y and debian:12 are everywhere.
func (w *workshop) Image(_ context.Context, name string) (images.Image, error) {
	if img, ok := w.have[name]; ok {
		return img, nil
	}
	return images.Image{}, fault.New(fault.Unavailable, "image_missing", "The image %q is not there.", name)
}

func (w *workshop) Public(_ context.Context, digest string) (bool, error) {
	return w.public[digest], nil
}

func (w *workshop) Pull(_ context.Context, name string, _ io.Writer) error {
	w.fetched = append(w.fetched, name)
	w.have[name] = images.Image{ID: "sha256:id-of-" + name, Tags: []string{name}, Digests: []string{name + "@digest"}}
	w.public[name+"@digest"] = true
	return nil
}

// given is what a builder was given.
type given struct {
	images.Order
	files map[string]string // name to content, or "-> target"
}

func (w *workshop) Build(ctx context.Context, o images.Order, log io.Writer) error {
	g := given{Order: o, files: map[string]string{}}
	for t := tar.NewReader(o.Context); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		b, err := io.ReadAll(t)
		if err != nil {
			return err
		}
		g.files[h.Name] = string(b)
		if h.Linkname != "" {
			g.files[h.Name] = "-> " + h.Linkname
		}
	}
	w.orders <- g
	fmt.Fprintln(log, "Step 1/1")
	if w.carryOut != nil {
		return w.carryOut(ctx, o, log)
	}
	return nil
}

func (w *workshop) Remove(_ context.Context, tag string) error {
	w.removed = append(w.removed, tag)
	return nil
}

func newWorkshop(t *testing.T, files map[string]string) *workshop {
	t.Helper()
	w := &workshop{t: t, have: map[string]images.Image{}, public: map[string]bool{}, db: storetest.SQLite(t), root: executortest.GitRoot(t), orders: make(chan given, 10)}
	user, team := storetest.Seed(t, w.db)
	_, err := w.db.Exec(t.Context(), `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, default_branch, state, created_by, created_at)
		VALUES ('prj_1',?,'p','path','',?,'main','ready',?,1)`, team.ID, filepath.Join(w.root, ".git"), user.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.commit(files)
	w.repos = assembly.New(assembly.Config{Store: store.NewWorkspaces(w.db), DataDir: t.TempDir(), BranchPrefix: "p/"})
	w.svc = images.New(images.Config{Store: store.NewImages(w.db), Repositories: w.repos.Repo, Builder: w, Allowed: true,
		HostImages: []string{"host/*:1", "any"}, Default: "agent"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.svc.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *workshop) commit(files map[string]string) {
	w.t.Helper()
	for name, content := range files {
		path := filepath.Join(w.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		target, link := strings.CutPrefix(content, "-> ")
		var err error
		if link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	executortest.Git(w.t, w.root, "add", "-A")
	executortest.Git(w.t, w.root, "commit", "-q", "-m", "files", "--allow-empty")
}

// stage is a stage of one line as the engine is given it.
func stage(name string) string {
	return "FROM sha256:id-of-" + name + "\nLABEL parawork.project=prj_1\n"
}

// build builds to the end.
func (w *workshop) build(source string) (images.Build, []string) {
	w.t.Helper()
	b, err := w.svc.Start(w.t.Context(), w.team(), "prj_1", "usr_1", source)
	if err != nil {
		w.t.Fatalf("Start %s: %v", source, err)
	}
	return w.end(b)
}

func (w *workshop) team() (id string) {
	w.t.Helper()
	if err := w.db.QueryRow(w.t.Context(), `SELECT team_id FROM projects WHERE id = 'prj_1'`).Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// end follows a build to its end.
func (w *workshop) end(b images.Build) (images.Build, []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	var lines []string
	if err := w.svc.Follow(ctx, b.ID, func(l string) error { lines = append(lines, l); return nil }); err != nil {
		w.t.Fatal(err)
	}
	b, err := w.svc.Get(ctx, b.ID)
	if err != nil || b.State == images.Building {
		w.t.Fatalf("build %+v, %v", b, err)
	}
	return b, lines
}

func TestAnImageIsBuiltFromTheCommitAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, map[string]string{"box/Dockerfile": "FROM x\n", "box/tool.sh": "echo\n", "box/link": "-> tool.sh", "outside.txt": "no",
		".gitattributes": "* filter=evil export-ignore\n"})
	marker := filepath.Join(t.TempDir(), "ran")
	executortest.Git(t, w.root, "config", "filter.evil.smudge", "touch "+marker)
	if err := os.WriteFile(filepath.Join(w.root, "box", "tool.sh"), []byte("uncommitted"), 0o644); err != nil {
		t.Fatal(err)
	}
	b, lines := w.build("box/Dockerfile")
	if b.State != images.Ready || !strings.HasPrefix(b.Tag, "parawork-project-prj_1:"+b.Commit[:12]) || len(lines) < 2 {
		t.Fatalf("build %+v, printed %q", b, lines)
	}
	g := <-w.orders
	want := map[string]string{".parawork.Dockerfile": stage("x"), "Dockerfile": "FROM x\n", "tool.sh": "echo\n", "link": "-> tool.sh"}
	if !maps.Equal(g.files, want) || g.Dockerfile != ".parawork.Dockerfile" || g.Tag != b.Tag {
		t.Errorf("given %+v, want the files %v", g, want)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a filter was run")
	}
	// The choice takes effect with the build.
	if err := w.svc.SetChoice(t.Context(), "prj_1", images.Choice{Build: "box/Dockerfile"}); err != nil {
		t.Fatal(err)
	}
	if o, err := w.svc.Overview(t.Context(), "prj_1"); err != nil || o.Image != b.Tag || len(o.Candidates) != 1 || len(o.Builds) != 1 {
		t.Errorf("overview %+v, %v", o, err)
	}
}

func TestDevcontainers(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, map[string]string{
		".devcontainer/devcontainer.json": "{ // a comment, \"with\" quotes\n \"name\": \"a /* no comment */ name\", \"build\": {\"dockerfile\": \"../Dockerfile.dev\", \"context\": \"..\",\n" +
			" \"args\": {\"V\": \"1\",}, \"target\": \"dev\"}, /* more */ \"features\": {\"ghcr.io/x/node:1\": {}}, }",
		"Dockerfile.dev":              "FROM y AS dev\n",
		"image/.devcontainer.json":    `{"image": "debian:12"}`,
		"compose/.devcontainer.json":  `{"dockerComposeFile": "c.yml"}`,
		"variable/.devcontainer.json": `{"build": {"dockerfile": "D", "args": {"X": "${localEnv:HOME}"}}}`,
		"outside/.devcontainer.json":  `{"build": {"dockerfile": "../../etc/passwd"}}`,
		"broken/.devcontainer.json":   `{"image": `,
		"empty/.devcontainer.json":    `{}`,
	})
	b, lines := w.build(".devcontainer/devcontainer.json")
	g := <-w.orders
	if b.State != images.Ready || g.Target != "dev" || g.Args["V"] != "1" || g.files[".parawork.Dockerfile"] != "FROM sha256:id-of-y AS dev\nLABEL parawork.project=prj_1\n" || g.files["a.txt"] == "" {
		t.Errorf("build %+v was given %+v", b, g)
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "ghcr.io/x/node:1") }) {
		t.Errorf("features are left out silently: %q", lines)
	}
	w.build("image/.devcontainer.json")
	if g := <-w.orders; len(g.files) != 1 || g.files[".parawork.Dockerfile"] != stage("debian:12") {
		t.Errorf("given %+v", g)
	}
	for dir, word := range map[string]string{"compose": "dockerComposeFile", "variable": "${localEnv:HOME}", "outside": "not in the repository", "broken": "JSON", "empty": "neither"} {
		if b, _ := w.build(dir + "/.devcontainer.json"); b.State != images.Failed || !strings.Contains(b.Reason, word) {
			t.Errorf("%s: %+v", dir, b)
		}
	}
}

// What a project chooses beside its Dockerfile is installed at the end of the stage that becomes the image.
func TestPartsAreInstalledInTheImage(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, map[string]string{"Dockerfile": "FROM x\nUSER app\n", ".parawork.install.sh": "theirs",
		".devcontainer.json": `{"build":{"dockerfile":"Many","target":"dev"}}`, "Many": "FROM x AS dev\nFROM y AS prod\n"})
	for _, wrong := range []images.Choice{{Parts: []string{"browser"}}, {Name: "any", Parts: []string{"browser"}}, {Build: "Dockerfile", Parts: []string{"x; true"}}} {
		if err := w.svc.SetChoice(t.Context(), "prj_1", wrong); fault.CodeOf(err) != "invalid_image" {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if err := w.svc.SetChoice(t.Context(), "prj_1", images.Choice{Build: "Dockerfile", Parts: []string{"lsp", "browser"}}); err != nil {
		t.Fatal(err)
	}
	for source, begin := range map[string]string{"Dockerfile": stage("x") + "USER app\n", ".devcontainer.json": "FROM sha256:id-of-x AS dev\nLABEL parawork.project=prj_1\n"} {
		b, lines := w.build(source)
		g := <-w.orders
		added, ok := strings.CutPrefix(g.files[".parawork.Dockerfile"], begin)
		if b.State != images.Ready || !ok || !strings.HasPrefix(added, "USER 0:0\n") || !strings.Contains(added, " chromium ") || !strings.Contains(added, " pyright@") || strings.Contains(added, "openbox") {
			t.Errorf("%s: %+v was given\n%s", source, b, g.files[".parawork.Dockerfile"])
		}
		if g.files[".parawork.install.sh"] != recipe.InstallScript || !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "lsp, browser") }) {
			t.Errorf("%s: the script is %q, the output %q", source, g.files[".parawork.install.sh"], lines)
		}
	}
}

func TestOneBuildAtATimeAndItsEnds(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, map[string]string{"Dockerfile": "FROM x\n"})
	w.carryOut = func(ctx context.Context, _ images.Order, _ io.Writer) error { <-ctx.Done(); return ctx.Err() }
	b, err := w.svc.Start(t.Context(), w.team(), "prj_1", "usr_1", "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	<-w.orders
	if _, err := w.svc.Start(t.Context(), w.team(), "prj_1", "usr_1", "Dockerfile"); fault.CodeOf(err) != "image_build_running" {
		t.Errorf("a second build: %v", err)
	}
	if b, err = w.svc.Cancel(t.Context(), b.ID); err != nil || b.State != images.Cancelled || b.EndedAt == 0 {
		t.Errorf("cancelled %+v, %v", b, err)
	}
	if again, err := w.svc.Cancel(t.Context(), b.ID); err != nil || again.State != images.Cancelled {
		t.Errorf("cancelled twice: %+v, %v", again, err)
	}
	w.carryOut = func(context.Context, images.Order, io.Writer) error {
		return fault.New(fault.Unavailable, "image_build_failed", "The image could not be built: exit code 1.")
	}
	if b, _ := w.build("Dockerfile"); b.State != images.Failed || !strings.Contains(b.Reason, "exit code 1") {
		t.Errorf("failed build %+v", b)
	}
	if b, _ := w.build("sub/Dockerfile"); b.State != images.Failed || !strings.Contains(b.Reason, "no file") {
		t.Errorf("a file that is not there: %+v", b)
	}
	w.carryOut = nil
	for range 4 {
		w.build("Dockerfile")
	}
	if len(w.removed) != 1 {
		t.Errorf("old images removed: %q", w.removed)
	}
	// A build that was cut by the server's end.
	cut := images.Build{ID: "img_cut", TeamID: w.team(), ProjectID: "prj_1", Source: "Dockerfile", State: images.Building, CreatedBy: "usr_1", CreatedAt: 5}
	if err := store.NewImages(w.db).InsertImageBuild(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	if err := w.svc.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, err := w.svc.Get(t.Context(), "img_cut"); err != nil || b.State != images.Failed || b.Reason == "" || b.EndedAt == 0 {
		t.Errorf("cut build %+v, %v", b, err)
	}
}

func TestImagesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, map[string]string{"Dockerfile": "FROM x\nCOPY --from=parawork-project-prj_2:abc / /\n", "own/Dockerfile": "FROM parawork-project-prj_1:abc\n",
		"arg/Dockerfile": "ARG A=parawork-project-prj_2:abc\nFROM ${A}\n", ".devcontainer.json": `{"image":"parawork-project-prj_2:x"}`,
		"given/.devcontainer.json": `{"build":{"dockerfile":"Dockerfile","args":{"A":"project-prj_2:abc"}}}`, "given/Dockerfile": "ARG A=x\nFROM parawork-${A}\n",
		"renamed/Dockerfile": "FROM host/renamed:1\n", "many/Dockerfile": "FROM host/tagged:1\n"})
	w.have["parawork-project-prj_1:abc"] = images.Image{ID: "sha256:own", Project: "prj_1"}
	w.have["parawork-project-prj_1:lost"] = images.Image{ID: "sha256:lost", Project: "prj_2"}
	w.have["host/renamed:1"] = images.Image{ID: "sha256:theirs", Project: "prj_2"}
	w.have["host/tagged:1"] = images.Image{ID: "sha256:theirs", Tags: []string{"host/tagged:1", "parawork-project-prj_2:old"}}
	for _, source := range []string{"Dockerfile", "arg/Dockerfile", ".devcontainer.json", "given/.devcontainer.json", "renamed/Dockerfile", "many/Dockerfile"} {
		if b, _ := w.build(source); b.State != images.Failed || !strings.Contains(b.Reason, "another project") {
			t.Errorf("%s: %+v", source, b)
		}
	}
	if b, _ := w.build("own/Dockerfile"); b.State != images.Ready {
		t.Errorf("its own: %+v", b)
	}
	// What is on the host: what the operator lists, what its registry gives to everybody, and nothing else.
	for _, name := range []string{"host/a:1", "any:7", "any", "agent", "node:22", "registry.example.com:5000/a/b:1.2", "host/deep/a:1", "host/a:2", "secret:1"} {
		w.have[name] = images.Image{ID: "sha256:" + name, Digests: []string{name + "@digest"}}
	}
	w.public["node:22@digest"], w.public["registry.example.com:5000/a/b:1.2@digest"] = true, true
	for name, code := range map[string]string{"parawork-project-prj_2:x": "image_of_another_project", "localhost:5000/parawork-project-prj_2": "image_of_another_project",
		"Node": "invalid_image", "node 22": "invalid_image", "-v": "invalid_image", "1b": "image_id", "cafe": "image_id", "cafe:1": "image_missing",
		"sha256:0123": "image_id", strings.Repeat("0a", 32): "image_id", "node:22": "", "registry.example.com:5000/a/b:1.2": "", "parawork-project-prj_1:abc": "",
		"parawork-project-prj_1:lost": "image_of_another_project", "host/renamed:1": "image_of_another_project", "host/tagged:1": "image_of_another_project",
		"host/a:1": "", "any:7": "", "any": "", "agent": "", "host/deep/a:1": "image_not_allowed", "host/a:2": "image_not_allowed", "secret:1": "image_not_allowed"} {
		if err := w.svc.SetChoice(t.Context(), "prj_1", images.Choice{Name: name}); fault.CodeOf(err) != code && (err != nil || code != "") {
			t.Errorf("%q: %v, want %q", name, err, code)
		}
	}
	// One that its registry gave to everybody when it was chosen is not asked about again; another image by that name is.
	db := store.NewImages(w.db)
	if err := w.svc.SetChoice(t.Context(), "prj_1", images.Choice{Name: "node:22"}); err != nil {
		t.Fatal(err)
	}
	clear(w.public)
	if c, err := db.ImageChoice(t.Context(), "prj_1"); err != nil || c.Public != "sha256:node:22" {
		t.Errorf("choice %+v, %v", c, err)
	}
	if len(w.fetched) != 1 || w.fetched[0] != "x" {
		t.Errorf("fetched %q: builds pull missing images, choices do not", w.fetched)
	}
	off := images.New(images.Config{Store: store.NewImages(w.db), Repositories: w.repos.Repo, Builder: w})
	if err := off.SetChoice(t.Context(), "prj_1", images.Choice{Name: "node:22"}); fault.CodeOf(err) != "images_not_allowed" {
		t.Errorf("where it is not allowed: %v", err)
	}
	w.have["secret:1"] = images.Image{ID: "sha256:secret"}
	teams := 1
	silent := images.New(images.Config{Store: db, Repositories: w.repos.Repo, Builder: w, Allowed: true, Teams: func(context.Context) (int, error) { return teams, nil }})
	if err := silent.SetChoice(t.Context(), "prj_1", images.Choice{Name: "secret:1"}); err != nil {
		t.Errorf("one team, and an operator who says nothing: %v", err)
	}
	teams = 2
	if err := silent.SetChoice(t.Context(), "prj_1", images.Choice{Name: "secret:1"}); fault.CodeOf(err) != "image_not_allowed" {
		t.Errorf("two teams, and an operator who says nothing: %v", err)
	}
	if err := off.SetChoice(t.Context(), "prj_1", images.Choice{}); err != nil {
		t.Errorf("back to the server's own: %v", err)
	}
}

func TestALongLogKeepsItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, map[string]string{"Dockerfile": "FROM x\n"})
	w.carryOut = func(_ context.Context, _ images.Order, log io.Writer) error {
		fmt.Fprint(log, strings.Repeat("x", 1<<20)+"\n\x1b[31mred\x00\n50%\r100%\n")
		for i := range 200_000 {
			fmt.Fprintf(log, "line %d\n", i)
		}
		fmt.Fprint(log, "the end")
		return nil
	}
	b, _ := w.build("Dockerfile")
	text, err := store.NewImages(w.db).ImageBuildLog(t.Context(), b.ID)
	if err != nil || len(text) > 600<<10 || !strings.HasSuffix(text, "line 199999\nthe end\n") || strings.ContainsAny(text, "\x1b\x00\r") {
		t.Errorf("log of %d bytes ends %q, %v", len(text), text[max(0, len(text)-50):], err)
	}
}
