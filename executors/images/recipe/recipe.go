// Package recipe says what is in the images and templates that Parawork makes: a base, Debian's packages, the agents' command lines and the
// environment. Whoever builds one - the agents' image, an image derived from a member's own, a template at E2B - takes it from here, so
// that an agent is the same wherever it runs. It is given the agents, and knows none by name.
package recipe

import (
	_ "embed" // what installs
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// BaseImage is what images and templates are built upon: Debian, since E2B takes no other, with the Node that install.sh installs, too.
const BaseImage = "node:22-bookworm-slim"

// BaseArg is the build argument of the Dockerfile that names another base.
const BaseArg = "NODE_IMAGE"

// InstallScript installs in an image of any kind what it lacks: see Derived.
//
//go:embed install.sh
var InstallScript string

// InstallDir is where a derived image has InstallScript, as install.sh.
const InstallDir = "/opt/parawork-install"

// Package is an agent's command line, from npm.
type Package struct {
	Program string            // as it is started
	Name    string            // as people call it
	NPM     string            // the package's name
	Version string            // "" = the newest
	Env     map[string]string // its environment wherever it is installed
}

// String is the package as npm takes it, with its version.
func (p Package) String() string {
	if p.Version == "" {
		return p.NPM
	}
	return p.NPM + "@" + p.Version
}

// Parse reads what npm takes: a name, or a name@version. The program is not known.
func Parse(spec string) Package {
	at := strings.LastIndexByte(spec, '@')
	if at <= 0 {
		return Package{Name: spec, NPM: spec}
	}
	return Package{Name: spec[:at], NPM: spec[:at], Version: spec[at+1:]}
}

var (
	programName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)
	packageName = regexp.MustCompile(`^(@[a-zA-Z0-9~-][a-zA-Z0-9._~-]*/)?[a-zA-Z0-9][a-zA-Z0-9._~-]*$`)
	versionName = regexp.MustCompile(`^[a-zA-Z0-9.~^+-]*$`)
)

// Check refuses packages that cannot stand in the line of a shell that installs them.
func Check(packages []Package) error {
	for _, p := range packages {
		if p.Program != "" && !programName.MatchString(p.Program) {
			return fmt.Errorf("%q is not the name of a program", p.Program)
		}
		if !packageName.MatchString(p.NPM) || !versionName.MatchString(p.Version) {
			return fmt.Errorf("%q is not the name of an npm package", p.String())
		}
	}
	return nil
}

// Programs are the names by which the agents are started.
func Programs(packages []Package) []string {
	out := make([]string, len(packages))
	for i, p := range packages {
		out[i] = p.Program
	}
	return out
}

// Apt returns the Debian packages: what agents and people reach for, and what npm needs to build a module.
func Apt() []string {
	return strings.Fields(`bash build-essential ca-certificates curl diffutils file findutils git git-lfs jq less make openssh-client patch procps
		python3 python3-pip python3-venv ripgrep rsync tar tmux unzip xz-utils`)
}

// Image is what an image or template that Parawork builds holds: the usual tools, the agents' command lines, and sets of parts.
type Image struct {
	Agents []Package
	With   []string // names of sets
}

// Check refuses what cannot be built.
func (i Image) Check() error {
	if err := CheckSets(i.With); err != nil {
		return err
	}
	return Check(i.Agents)
}

// Commands are what root runs in BaseImage, one after the other: they install Debian's packages, the agents' command lines, and the sets.
func (i Image) Commands() []string {
	out := []string{aptInstall(Apt())}
	if len(i.Agents) > 0 {
		var npm []string
		for _, p := range i.Agents {
			npm = append(npm, p.String())
		}
		out = append(out, npmInstall(npm))
	}
	for _, s := range sets {
		if slices.Contains(i.With, s.Name) {
			out = append(out, setCommand(s.Name))
		}
	}
	return out
}

// aptInstall installs Debian's packages, and leaves nothing else.
func aptInstall(packages []string) string {
	return "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends " + strings.Join(packages, " ") + " && apt-get clean && rm -rf /var/lib/apt/lists/*"
}

// npmInstall installs packages of npm, and leaves nothing else.
func npmInstall(packages []string) string {
	return "npm install --global --no-audit --no-fund " + strings.Join(packages, " ") + " && npm cache clean --force"
}

// Variable is one of an environment.
type Variable struct{ Name, Value string }

// Env is the environment of the agents wherever they are installed, sorted by name.
func Env(packages []Package) []Variable {
	all := map[string]string{}
	for _, p := range packages {
		maps.Copy(all, p.Env)
	}
	var out []Variable
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, Variable{name, all[name]})
	}
	return out
}

// Env is the environment of an image built upon BaseImage.
func (i Image) Env() []Variable {
	return append([]Variable{{"LANG", "C.UTF-8"}}, Env(i.Agents)...)
}

// Dockerfile makes the image that containers are made from, unless config.json or a project says otherwise.
func (i Image) Dockerfile() string {
	var b strings.Builder
	b.WriteString(`# The image Parawork's containers are made from, unless config.json or a project says otherwise. "parawork docker build" builds it as
# parawork-agent; "parawork image" prints this file, to derive one of your own from.
#
# What Parawork itself needs is /bin/sh and git. The guest is shown to the container, not part of the image; the user is the
# workspace's; the file system is read-only but for the worktree, the home, /tmp and /run.
ARG ` + BaseArg + "=" + BaseImage + `
FROM ${` + BaseArg + `}

# The usual tools, the agents' command lines in the versions Parawork was tried with, and the parts that were asked for.
`)
	for _, c := range i.Commands() {
		b.WriteString("RUN " + folded(c) + "\n\n")
	}
	b.WriteString("# Agents cannot replace themselves in a read-only image, and need not ask.\nENV")
	for _, v := range i.Env() {
		fmt.Fprintf(&b, " %s=%q", v.Name, v.Value)
	}
	b.WriteByte('\n')
	return b.String()
}

// folded breaks a command at its ends and before long lines, as Dockerfiles are written.
func folded(command string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(command) {
		switch {
		case i == 0:
		case word == "&&":
			b.WriteString(" \\\n ")
			width = 1
		case width+len(word) > 120:
			b.WriteString(" \\\n      ")
			width = 6
		default:
			b.WriteByte(' ')
		}
		b.WriteString(word)
		width += 1 + len(word)
	}
	return b.String()
}

// Derived is the Dockerfile of an image that is derived from another by InstallScript, which stands in the folder install of its context. It has a
// layer for each that installs, and few others: each costs a container.
type Derived struct {
	Base     string   // the image it is derived from
	Root     bool     // that image's commands run as somebody else than root
	Args     []string // build arguments that the script reads
	Tools    bool     // git and the tools around it are installed
	System   []string // packages of the image's own package manager
	Packages []Package
}

// Dockerfile writes it.
func (d Derived) Dockerfile() string {
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s\n", d.Base)
	if d.Root {
		b.WriteString("USER 0:0\n")
	}
	for _, a := range d.Args {
		fmt.Fprintf(&b, "ARG %s\n", a)
	}
	fmt.Fprintf(&b, "COPY install %s\n", InstallDir)
	if d.Tools {
		fmt.Fprintf(&b, "RUN sh %s/install.sh tools\n", InstallDir)
	}
	if len(d.System) > 0 {
		fmt.Fprintf(&b, "RUN sh %s/install.sh system %s\n", InstallDir, strings.Join(d.System, " "))
	}
	if len(d.Packages) > 0 {
		fmt.Fprintf(&b, "RUN sh %s/install.sh node\n", InstallDir)
	}
	for _, p := range d.Packages {
		fmt.Fprintf(&b, "RUN sh %s/install.sh agent %s %s\n", InstallDir, p.Program, p)
	}
	return b.String()
}
