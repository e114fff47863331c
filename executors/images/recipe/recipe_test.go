package recipe_test

import (
	"os/exec"
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
		"the agents' image": func(p []recipe.Package) string { return recipe.Image{Agents: p}.Dockerfile() },
		"the commands":      func(p []recipe.Package) string { return strings.Join(recipe.Image{Agents: p}.Commands(), "\n") },
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
	if d := (recipe.Image{Agents: []recipe.Package{one, two}}).Dockerfile(); !strings.Contains(d, `ENV LANG="C.UTF-8" ONE_NO_UPDATE="1" TWO_QUIET="yes"`) {
		t.Errorf("the environment of the agents' image:\n%s", d)
	}
	if got := recipe.Programs([]recipe.Package{one, two}); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("programs: %q", got)
	}
}

// The Dockerfile and the commands that a template is made with install the same of Debian's packages.
func TestTheDockerfileDoesWhatTheCommandsDo(t *testing.T) {
	t.Parallel()
	image := recipe.Image{Agents: []recipe.Package{one}, With: recipe.SetNames()}
	flat := strings.Join(strings.Fields(strings.ReplaceAll(image.Dockerfile(), "\\\n", " ")), " ")
	for _, c := range image.Commands() {
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
	if c := (recipe.Image{}).Commands(); len(c) != 1 || strings.Contains(c[0], "npm") {
		t.Errorf("without agents: %q", c)
	}
}

// What every image has needs no set, each set installs all its parts and looks for them in the end, and a shell understands it.
func TestSetsInstallTheirParts(t *testing.T) {
	t.Parallel()
	plain := strings.Join(recipe.Image{}.Commands(), "\n")
	for _, p := range recipe.Parts() {
		with := recipe.Image{With: []string{p.Set}}
		if p.Set == "" {
			with.With = nil
		}
		commands := with.Commands()
		last := commands[len(commands)-1]
		for _, name := range slices.Concat(p.Apt, p.NPM) {
			if p.Set == "" && (name == "nodejs" || name == "npm") {
				continue // the base has them
			}
			if !slices.Contains(strings.Fields(last), name) || p.Set != "" && strings.Contains(plain, " "+name+" ") {
				t.Errorf("%s of %s is not installed by its set alone: %s", name, p.Name, last)
			}
		}
		if p.Set != "" && !strings.Contains(last, strings.Join(slices.Concat(p.Programs, p.Modules)[:1], "")) {
			t.Errorf("nothing looks whether %s is there: %s", p.Name, last)
		}
		if p.Set != "" && !slices.Contains(recipe.SetNames(), p.Set) {
			t.Errorf("%s is in no set: %q", p.Name, p.Set)
		}
		if out, err := exec.Command("sh", "-n", "-c", last).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", last, err, out)
		}
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
	got := recipe.Derived{Base: "sha256:1", Root: true, Args: []string{"NPM_CONFIG_REGISTRY"}, Tools: true, System: []string{"nmap", "wget"}, Packages: []recipe.Package{one}}.Dockerfile()
	want := `FROM sha256:1
USER 0:0
ARG NPM_CONFIG_REGISTRY
COPY install /opt/parawork-install
RUN sh /opt/parawork-install/install.sh tools
RUN sh /opt/parawork-install/install.sh system nmap wget
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
