//go:build linux

package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/testdocker"
)

// A package manager, a Node.js and an npm that do what the real ones do, without a network.
var stores = map[string]string{
	"apt-get": `echo "apt-get $*"
[ "$1" = update ] && exit
[ -e /no-packages ] && echo "Temporary failure resolving" && exit 100
mkdir -p /usr/local/bin
printf '#!/bin/sh\necho git version 2\n' >/usr/local/bin/git && chmod 755 /usr/local/bin/git`,
	"node": `echo 22`,
	"npm": `[ "$1" = install ] || exit 0
mkdir -p /usr/local/bin
for p; do :; done
case $p in
broken*) echo "npm error 404 Not Found - broken"; exit 1 ;;
esac
name=${p%%-cli*}
printf '#!/bin/sh\necho %s\n' "$p" >/usr/local/bin/$name && chmod 755 /usr/local/bin/$name`,
}

// bare makes an image that holds nothing but a shell and those three; its name is the test's own.
func bare(t *testing.T, name string, marks ...string) {
	t.Helper()
	if engineErr != nil {
		testdocker.Skip(t, engineErr)
	}
	dir := t.TempDir()
	more := []string{"sh", "cat", "sleep", "mkdir", "chmod", "rm", "printf", "uname", "sha512sum", "stat", "id"}
	for file, text := range stores {
		path := filepath.Join(dir, file)
		syscall.ForkLock.RLock()
		err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
		more = append(more, path)
	}
	if err := engine.ImportOnly(name, more...); err != nil {
		t.Fatal(err)
	}
	for _, mark := range marks {
		b := newBuilder(t)
		if err := b.Build(t.Context(), executors.ImageBuild{Tag: name, Dockerfile: "D", Network: "none",
			Context: files(t, map[string]string{"D": "FROM " + name + "\nCOPY mark " + mark + "\n", "mark": ""})}, new(strings.Builder)); err != nil {
			t.Fatal(err)
		}
	}
}

// heard are the reported steps of a making.
type heard struct {
	mu    sync.Mutex
	steps []string
	words strings.Builder
}

func (h *heard) in(ctx context.Context) context.Context {
	return executors.WithProgress(ctx, func(_ context.Context, step, title, detail string, _, _ int64) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.steps) == 0 || h.steps[len(h.steps)-1] != step {
			h.steps = append(h.steps, step)
		}
		h.words.WriteString(title + ": " + detail + "\n")
	})
}

func preparing(t *testing.T, dir, name string, change func(*docker.Prepare)) *docker.Executor {
	t.Helper()
	p := docker.Prepare{Agents: []recipe.Package{{Program: "one", Name: "Agent One", NPM: "one-cli", Version: "1"}, {Program: "two", Name: "Agent Two", NPM: "two-cli", Version: "2"}}, Network: "none"}
	change(&p)
	return newWith(t, dir, func(c *docker.Config) { c.Image, c.Prepare, c.Machine = name, &p, true })
}

func createReporting(t *testing.T, e *docker.Executor) (executors.Sandbox, *heard, error) {
	t.Helper()
	var h heard
	sb, err := e.Create(h.in(t.Context()), boxed(t))
	if err == nil {
		t.Cleanup(func() {
			if err := sb.Destroy(context.Background()); err != nil {
				t.Errorf("Destroy: %v", err)
			}
		})
	}
	return sb, &h, err
}

// What an image lacks is installed once, where people see it, and found again by another program for the same image.
func TestWhatAnImageLacksIsInstalled(t *testing.T) {
	t.Parallel()
	bare(t, "prepare-lacks:latest")
	trusting := func(p *docker.Prepare) { p.CA = []byte("whom this machine trusts\n") }
	e := preparing(t, t.TempDir(), "prepare-lacks:latest", trusting)
	if c, err := e.Capabilities(t.Context()); err != nil || !c.Available || !strings.Contains(c.Isolation, "this machine's kernel") {
		t.Errorf("%+v, %v", c, err)
	}
	sb, h, err := createReporting(t, e)
	if err != nil {
		t.Fatalf("Create: %v\n%s", err, h.words.String())
	}
	if got := run(t, sb, "git; one; two; cat $NODE_EXTRA_CA_CERTS"); got != "git version 2\none-cli@1\ntwo-cli@2\nwhom this machine trusts\n" {
		t.Errorf("in the container: %q", got)
	}
	if got := strings.Join(h.steps, " "); got != "tools create" {
		t.Errorf("steps: %s", got)
	}
	if w := h.words.String(); !strings.Contains(w, "Install what the image prepare-lacks:latest lacks: git, Agent One, Agent Two") || !strings.Contains(w, "apt-get install") {
		t.Errorf("told: %s", w)
	}
	_, h, err = createReporting(t, preparing(t, t.TempDir(), "prepare-lacks:latest", trusting))
	if err != nil || strings.Join(h.steps, " ") != "create" {
		t.Errorf("the second time: %v, steps %q", err, h.steps)
	}
	// Another image by that name is another base.
	bare(t, "prepare-lacks:latest", "/newer")
	sb, h, err = createReporting(t, e)
	if err != nil || h.steps[0] != "tools" {
		t.Fatalf("of a newer image: %v, steps %q", err, h.steps)
	}
	if got := run(t, sb, "[ -e /newer ] && git"); got != "git version 2\n" {
		t.Errorf("in the newer container: %q", got)
	}
}

// An image that has it all is used as it is.
func TestACompleteImageIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	e := preparing(t, t.TempDir(), testdocker.Image, func(p *docker.Prepare) { p.Agents = []recipe.Package{} })
	sb, h, err := createReporting(t, e)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(h.words.String(), "Install") || strings.Contains(string(sb.Handle().State), "prepared") {
		t.Errorf("told %s", h.words.String())
	}
}

// One agent that cannot be had keeps nobody from working with the others, and is said.
func TestAnAgentThatCannotBeInstalled(t *testing.T) {
	t.Parallel()
	bare(t, "prepare-partial:latest")
	e := preparing(t, t.TempDir(), "prepare-partial:latest", func(p *docker.Prepare) {
		p.Agents = append(p.Agents, recipe.Package{Program: "broken", Name: "Broken Agent", NPM: "broken-cli", Version: "3"})
	})
	sb, h, err := createReporting(t, e)
	if err != nil {
		t.Fatal(err)
	}
	if w := h.words.String(); !strings.Contains(w, "Not installed: Broken Agent (npm could not install broken-cli@3 (npm error 404 Not Found - broken))") {
		t.Errorf("told: %s", w)
	}
	if got := run(t, sb, "one; command -v broken || echo none"); got != "one-cli@1\nnone\n" {
		t.Errorf("in the container: %q", got)
	}
	if _, h, err := createReporting(t, e); err != nil || strings.Join(h.steps, " ") != "create" {
		t.Errorf("soon after: %v, steps %q: it is tried again at once", err, h.steps)
	}
}

// Where nothing can be installed, the reason is said and what to do.
func TestNothingCanBeInstalled(t *testing.T) {
	t.Parallel()
	bare(t, "prepare-cut:latest", "/no-packages")
	for name, c := range map[string]struct {
		image  string
		change func(*docker.Prepare)
		code   string
		words  []string
	}{
		"no network":            {"prepare-cut:latest", func(*docker.Prepare) {}, "image_incomplete", []string{"git, Agent One", "could not install the tools (Temporary failure resolving)", "choose an image"}},
		"the owner wants none":  {"prepare-cut:latest", func(p *docker.Prepare) { p.Offline = "its owner lets nothing out" }, "image_incomplete", []string{"no git", "its owner lets nothing out", "Choose an image"}},
		"not there":             {"prepare-none:latest", func(p *docker.Prepare) { p.Offline = "its owner lets nothing out" }, "image_missing", []string{"its owner lets nothing out", "docker pull prepare-none:latest"}},
		"a registry that is no": {"127.0.0.1:1/prepare-none:latest", func(*docker.Prepare) {}, "image_missing", []string{"fetching it failed", "127.0.0.1:1"}},
	} {
		_, h, err := createReporting(t, preparing(t, t.TempDir(), c.image, c.change))
		if fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v does not say %q\ntold: %s", name, err, w, h.words.String())
			}
		}
	}
	// An agent that is not there and may not be installed keeps nobody from working.
	sb, _, err := createReporting(t, preparing(t, t.TempDir(), testdocker.Image, func(p *docker.Prepare) { p.Offline = "its owner lets nothing out" }))
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, sb, "git --version >/dev/null && echo works"); got != "works\n" {
		t.Errorf("in the container: %q", got)
	}
}
