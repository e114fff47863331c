//go:build linux

package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/testing/testdocker"
)

func newBuilder(t *testing.T) *docker.Builder {
	t.Helper()
	if engineErr != nil {
		testdocker.Skip(t, engineErr)
	}
	b, err := docker.NewBuilder(engine.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// files makes a build's context.
func files(t *testing.T, content map[string]string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestBuildAndUseAnImage(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	var log bytes.Buffer
	tag := "parawork-project-prj_a:1"
	err := b.Build(t.Context(), executors.ImageBuild{Tag: tag, Dockerfile: "D", Project: "prj_a", Bounded: true, Network: "none", Args: map[string]string{"WORD": "hello"},
		Context: files(t, map[string]string{"D": "FROM " + testdocker.Image + "\nARG WORD\nENV OWN=\"$WORD world\"\nCOPY file /file\nRUN cat /file && echo said $WORD\n", "file": "content\n"})}, &log)
	if err != nil || !strings.Contains(log.String(), "said hello") {
		t.Fatalf("Build: %v, printed %q", err, log.String())
	}
	e := newExecutor(t, t.TempDir())
	s := spec(t)
	s.Image, s.ImageFor = tag, "prj_a"
	sb := create(t, e, s)
	if out := run(t, sb, `echo "$OWN"; cat /file`); out != "hello world\ncontent\n" {
		t.Errorf("in the container: %q", out)
	}
	if err := b.Remove(t.Context(), tag); err != nil { // in use: left, or only untagged
		t.Errorf("Remove: %v", err)
	}
	if err := b.Remove(t.Context(), "parawork-project-prj_a:none"); err != nil {
		t.Errorf("Remove of one that is not there: %v", err)
	}
}

func TestBuildsThatFailSayWhy(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	for text, words := range map[string]string{
		"FROM " + testdocker.Image + "\nRUN echo before; exit 7\n":               "7",
		"FROM scratch\nNONSENSE\n":                                               "NONSENSE",
		"FROM " + testdocker.Image + "\nRUN --mount=type=cache,target=/x true\n": "BuildKit",
		"FROM registry.invalid/none:1\n":                                         "registry",
	} {
		err := b.Build(t.Context(), executors.ImageBuild{Tag: "parawork-test-fails", Dockerfile: "Dockerfile", Network: "none", Context: files(t, map[string]string{"Dockerfile": text})}, io.Discard)
		if fault.CodeOf(err) != "image_build_failed" || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// signal is a log that tells when a word was printed.
type signal struct {
	word string
	seen chan struct{}
	once sync.Once
	buf  bytes.Buffer
}

func (s *signal) Write(p []byte) (int, error) {
	s.buf.Write(p)
	if strings.Contains(s.buf.String(), s.word) {
		s.once.Do(func() { close(s.seen) })
	}
	return len(p), nil
}

func TestABuildCanBeCancelled(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	log := &signal{word: "sleeping", seen: make(chan struct{})}
	go func() { <-log.seen; cancel() }()
	err := b.Build(ctx, executors.ImageBuild{Tag: "parawork-test-cancelled", Dockerfile: "Dockerfile", Network: "none",
		Context: files(t, map[string]string{"Dockerfile": "FROM " + testdocker.Image + "\nRUN echo sleeping; sleep 1000\n"})}, log)
	if err == nil || ctx.Err() == nil {
		t.Errorf("Build: %v", err)
	}
}

// The shipped Dockerfile, step by step on a real engine; what it downloads is stood in for.
func TestTheShippedDockerfileBuilds(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	base := "FROM " + testdocker.Image + "\nCOPY apt-get npm /usr/bin/\n"
	fake := "#!/bin/sh\necho \"$(basename $0) $*\"\n"
	if err := b.Build(t.Context(), executors.ImageBuild{Tag: "parawork-test-base:1", Dockerfile: "Dockerfile", Network: "none",
		Context: files(t, map[string]string{"Dockerfile": base, "apt-get": fake, "npm": fake})}, io.Discard); err != nil {
		t.Fatal(err)
	}
	context, err := docker.AgentContext(recipe.Image{Agents: []recipe.Package{{Program: "one", NPM: "@scope/one-cli", Version: "1.2"}, {Program: "two", NPM: "two-cli", Version: "3"}}})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	err = b.Build(t.Context(), executors.ImageBuild{Tag: "parawork-test-agent:1", Dockerfile: "Dockerfile", Network: "none", Progress: true,
		Args: map[string]string{recipe.BaseArg: "parawork-test-base:1"}, Context: context}, &log)
	if err != nil || !strings.Contains(log.String(), "npm install --global --no-audit --no-fund @scope/one-cli@1.2 two-cli@3") {
		t.Errorf("Build: %v\n%s", err, log.String())
	}
}

// A program of the image that a folder of the sandbox's own hides is looked up where it would run, and that is what people read.
func TestAProgramThatTheSandboxHides(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	text := "FROM " + testdocker.Image + "\nRUN mkdir -p /tmp/tools && cp /usr/bin/true /tmp/tools/hidden && ln -s /tmp/tools/hidden /usr/bin/hidden && hidden\n"
	if err := b.Build(t.Context(), executors.ImageBuild{Tag: "parawork-test-hidden:1", Dockerfile: "D", Network: "none", Context: files(t, map[string]string{"D": text})}, io.Discard); err != nil {
		t.Fatal(err)
	}
	s := spec(t)
	s.Image = "parawork-test-hidden:1"
	c := dial(t, create(t, newExecutor(t, t.TempDir()), s))
	for program, want := range map[string]string{"hidden": `start_failed: "hidden" cannot be run: /usr/bin/hidden is a link to /tmp/tools/hidden, which does not exist: /tmp is the sandbox's own folder and hides the image's`,
		"nowhere": `start_failed: "nowhere" was not found in PATH (/usr/local/sbin, /usr/local/bin, /usr/sbin, /usr/bin, /sbin, /bin)`} {
		p, err := c.Start(t.Context(), guest.ProcessSpec{ID: id.New("p"), Argv: []string{program}})
		if err != nil || p.Reason != want {
			t.Errorf("%s: %q, %v", program, p.Reason, err)
		}
	}
}
