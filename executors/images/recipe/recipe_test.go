package recipe_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/images/recipe"
)

var one = recipe.Package{Program: "one", Name: "Agent One", NPM: "@scope/one-cli", Version: "1.2.3", Env: map[string]string{"ONE_NO_UPDATE": "1"}}

// An agent more is in every image and template, with its version and its environment.
func TestAnAgentIsInEverything(t *testing.T) {
	t.Parallel()
	two := recipe.Package{Program: "two", Name: "Agent Two", NPM: "two-cli", Version: "4.0.0-beta.1", Env: map[string]string{"TWO_QUIET": "yes"}}
	for name, made := range map[string]func([]recipe.Package) string{
		"the agents' image": recipe.Dockerfile,
		"the commands":      func(p []recipe.Package) string { return strings.Join(recipe.Commands(p), "\n") },
		"a derived image": func(p []recipe.Package) string {
			return recipe.Derived{Base: "sha256:1", Packages: p}.Dockerfile()
		},
	} {
		before, after := made([]recipe.Package{one}), made([]recipe.Package{one, two})
		if !strings.Contains(before, "@scope/one-cli@1.2.3") || strings.Contains(before, "two-cli") {
			t.Errorf("%s with one agent:\n%s", name, before)
		}
		if !strings.Contains(after, "@scope/one-cli@1.2.3") || !strings.Contains(after, "two-cli@4.0.0-beta.1") {
			t.Errorf("%s with two agents:\n%s", name, after)
		}
	}
	if got, want := recipe.Env([]recipe.Package{two, one}), []recipe.Variable{{"ONE_NO_UPDATE", "1"}, {"TWO_QUIET", "yes"}}; !slices.Equal(got, want) {
		t.Errorf("the environment: %v", got)
	}
	if d := recipe.Dockerfile([]recipe.Package{one, two}); !strings.Contains(d, `ENV LANG="C.UTF-8" ONE_NO_UPDATE="1" TWO_QUIET="yes"`) {
		t.Errorf("the environment of the agents' image:\n%s", d)
	}
	if got := recipe.Programs([]recipe.Package{one, two}); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("programs: %q", got)
	}
}

// The Dockerfile and the commands that a template is made with install the same of Debian's packages.
func TestTheDockerfileDoesWhatTheCommandsDo(t *testing.T) {
	t.Parallel()
	packages := []recipe.Package{one}
	flat := strings.Join(strings.Fields(strings.ReplaceAll(recipe.Dockerfile(packages), "\\\n", " ")), " ")
	for _, c := range recipe.Commands(packages) {
		if !strings.Contains(flat, "RUN "+c) {
			t.Errorf("the Dockerfile does not run %q:\n%s", c, flat)
		}
	}
	for _, tool := range recipe.Apt() {
		if !strings.Contains(flat, " "+tool+" ") {
			t.Errorf("the Dockerfile does not install %s", tool)
		}
	}
	if !strings.Contains(flat, "ARG "+recipe.BaseArg+"="+recipe.BaseImage+" FROM ${"+recipe.BaseArg+"}") {
		t.Errorf("another base cannot be given:\n%s", flat)
	}
	if c := recipe.Commands(nil); len(c) != 1 || strings.Contains(c[0], "npm") {
		t.Errorf("without agents: %q", c)
	}
}

// One Node for all: that of the base is the one the script brings to other images.
func TestOneNode(t *testing.T) {
	t.Parallel()
	script := regexp.MustCompile(`(?m)^NODE_VERSION=(\d+)\.`).FindStringSubmatch(recipe.InstallScript)
	base := regexp.MustCompile(`^node:(\d+)-`).FindStringSubmatch(recipe.BaseImage)
	if script == nil || base == nil || script[1] != base[1] {
		t.Errorf("the script installs Node %v, the base %s has %v", script, recipe.BaseImage, base)
	}
}

func TestADerivedImageHasWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	got := recipe.Derived{Base: "sha256:1", Root: true, Args: []string{"NPM_CONFIG_REGISTRY"}, Tools: true, Packages: []recipe.Package{one}}.Dockerfile()
	want := `FROM sha256:1
USER 0:0
ARG NPM_CONFIG_REGISTRY
COPY install /opt/parawork-install
RUN sh /opt/parawork-install/install.sh tools
RUN sh /opt/parawork-install/install.sh node
RUN sh /opt/parawork-install/install.sh agent one @scope/one-cli@1.2.3
`
	if got != want {
		t.Errorf("got:\n%s", got)
	}
	if bare := (recipe.Derived{Base: "sha256:1"}).Dockerfile(); strings.Contains(bare, "RUN") || strings.Contains(bare, "USER") {
		t.Errorf("where nothing lacks:\n%s", bare)
	}
}

func TestWhatNpmTakesIsRead(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]recipe.Package{
		"@openai/codex@0.169.0": {NPM: "@openai/codex", Version: "0.169.0"},
		"@openai/codex":         {NPM: "@openai/codex"},
		"opencode-ai@^1":        {NPM: "opencode-ai", Version: "^1"},
		"opencode-ai":           {NPM: "opencode-ai"},
	} {
		p := recipe.Parse(spec)
		if p.NPM != want.NPM || p.Version != want.Version || p.String() != spec {
			t.Errorf("%q: %+v", spec, p)
		}
		if err := recipe.Check([]recipe.Package{p}); err != nil {
			t.Errorf("%q: %v", spec, err)
		}
	}
	for _, bad := range []string{"", "-g", "x; rm -rf /", "x@1 && y", "@scope", "x@$(id)", "../x", "x\ny", "https://example.com/x.tgz"} {
		if err := recipe.Check([]recipe.Package{recipe.Parse(bad)}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := recipe.Check([]recipe.Package{{Program: "a b", NPM: "x"}}); err == nil {
		t.Error("a program with a space is taken")
	}
}
