//go:build linux

package docker_test

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/testdocker"
)

// command runs the engine's own command line.
func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", append([]string{"-H", engine.Host}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// What people and members' machines call an image is a name: never an id, never the beginning of one, and never another project's image.
func TestAnImageIsFoundByItsNameAlone(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	tag := "parawork-project-prj_b:1"
	if err := b.Build(t.Context(), executors.ImageBuild{Tag: tag, Dockerfile: "D", Project: "prj_b", Network: "none",
		Context: files(t, map[string]string{"D": "FROM " + testdocker.Image + "\nCOPY file /secret\n", "file": "theirs\n"})}, io.Discard); err != nil {
		t.Fatal(err)
	}
	img, err := b.Image(t.Context(), tag)
	if err != nil || img.Project != "prj_b" {
		t.Fatalf("Image %+v, %v", img, err)
	}
	command(t, "tag", tag, "identity-innocent:1")
	digest := strings.TrimPrefix(img.ID, "sha256:")
	prepared := docker.Prepare{Agents: []recipe.Package{}, Offline: "the test has no network"}
	for place, change := range map[string]func(*docker.Config){"a server": func(*docker.Config) {}, "a member's machine": func(c *docker.Config) { c.Machine, c.Prepare = true, &prepared }} {
		for name, code := range map[string]string{digest[:2]: "image_missing", digest[:12]: "image_missing", digest: "invalid_image", "sha256:" + digest: "invalid_image",
			"sha256:" + digest[:12]: "invalid_image", tag: "image_of_another_project", "identity-innocent:1": "image_of_another_project"} {
			e := newWith(t, t.TempDir(), change)
			s := spec(t)
			s.Image = name
			if _, err := e.Create(t.Context(), s); fault.CodeOf(err) != code {
				t.Errorf("%s: the image %q: %v, want %s", place, name, err, code)
			}
			own := newWith(t, t.TempDir(), func(c *docker.Config) { change(c); c.Image = name }) // as an operator or owner says
			if _, err := own.Create(t.Context(), spec(t)); fault.CodeOf(err) != code {
				t.Errorf("%s made from the image %q: %v, want %s", place, name, err, code)
			}
		}
	}
	// What was judged is what is used, although its name means another image by now; and an id is no way past the label.
	e := newExecutor(t, t.TempDir())
	command(t, "tag", testdocker.Image, "identity-moves:1")
	judged, err := b.Image(t.Context(), "identity-moves:1")
	if err != nil {
		t.Fatal(err)
	}
	command(t, "tag", tag, "identity-moves:1")
	s := spec(t)
	s.Image, s.ImageID, s.ImageFor = "identity-moves:1", judged.ID, "prj_a"
	if out := run(t, create(t, e, s), "cat /secret 2>&1"); !strings.Contains(out, "No such file") {
		t.Errorf("in the image that was judged: %q", out)
	}
	s = spec(t)
	s.Image, s.ImageID, s.ImageFor = tag, img.ID, "prj_a"
	if _, err := e.Create(t.Context(), s); fault.CodeOf(err) != "image_of_another_project" {
		t.Errorf("by the id of another project's image: %v", err)
	}
	s.ImageFor = "prj_b"
	if out := run(t, create(t, e, s), "cat /secret"); out != "theirs\n" {
		t.Errorf("in its own image: %q", out)
	}
}
