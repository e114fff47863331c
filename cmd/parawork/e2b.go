package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/sessions/agents"
)

const e2bUsage = `usage: parawork e2b template build [--config FILE] [--size CPUSxMIB|all] [--name NAME] [--image IMAGE] [--packages LIST] [--force]
       parawork e2b template list [--config FILE]

Makes the templates that workspaces' sandboxes at E2B are made from: git, the usual tools, Node, the agents' command lines and Parawork's
guest, on Debian. The key and addresses are those of config.json and the environment (E2B_API_KEY, E2B_DOMAIN, E2B_API_URL, E2B_SANDBOX_URL).

  --size SIZE      vCPUs and MiB, such as 4x4096, or all sizes that are offered (default: the default size)
  --name NAME      name of the template (default: sandboxing.e2b.template, with the size behind it where it is not the default one)
  --image IMAGE    what it is built upon: Debian with Node (default: ` + recipe.BaseImage + `)
  --packages LIST  npm packages of other agents than the usual, such as @openai/codex@0.169.0, separated by commas; without a version the
                   newest (default: the agents Parawork knows, in the versions it was tried with)
  --force          do every step again
`

// e2b is the command `parawork e2b`.
func (p program) e2b(ctx context.Context, args []string) error {
	if len(args) < 2 || args[0] != "template" || args[1] != "build" && args[1] != "list" {
		fmt.Fprint(p.stderr, e2bUsage)
		return errUsage
	}
	fs := flag.NewFlagSet("e2b template "+args[1], flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(p.stderr, e2bUsage) }
	file := fs.String("config", "", "config.json")
	var size, name, image, packages *string
	var force *bool
	if args[1] == "build" {
		size, name, image = fs.String("size", "", "vCPUs and MiB"), fs.String("name", "", "name of the template"), fs.String("image", "", "what it is built upon")
		packages, force = fs.String("packages", "", "npm packages of the agents"), fs.Bool("force", false, "do every step again")
	}
	if err := p.parse(fs, args[2:]); err != nil {
		return err
	}
	cfg, err := fromconfig.Load(*file, p.env)
	if err != nil {
		return err
	}
	set := fromconfig.E2BFromFile(cfg)
	if args[1] == "list" {
		return p.listTemplates(ctx, set)
	}
	full, err := set.Normal()
	if err != nil {
		return err
	}
	sizes, err := buildSizes(full, *size)
	if err != nil {
		return err
	}
	if *name != "" && len(sizes) > 1 {
		return errors.New("--name names one template: give one --size with it")
	}
	guest, err := guestPath(cfg.DataDir, p.env)
	if err != nil {
		return err
	}
	held := agents.Packages()
	if *packages != "" {
		held = nil
		for name := range strings.SplitSeq(*packages, ",") {
			held = append(held, recipe.Parse(strings.TrimSpace(name)))
		}
	}
	for _, s := range sizes {
		spec := e2b.BuildSpec{Size: s, Name: *name, Image: *image, Agents: held, GuestPath: guest, Force: *force}
		if err := e2b.Build(ctx, set, spec, p.stdout); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted: E2B goes on with the build; `parawork e2b template list` shows it")
			}
			return err
		}
		made := *name
		if made == "" {
			made = full.TemplateOf(s.CPUs, s.MemoryMB)
		}
		fmt.Fprintf(p.stdout, "The template %s is ready.\n", made)
	}
	return nil
}

// buildSizes reads --size.
func buildSizes(set e2b.Settings, text string) ([]executors.Size, error) {
	switch text {
	case "":
		return []executors.Size{{CPUs: set.CPUs, MemoryMB: int64(set.MemoryMB)}}, nil
	case "all":
		return set.Sizes(), nil
	}
	cpus, memory, ok := strings.Cut(text, "x")
	c, cerr := strconv.Atoi(cpus)
	m, merr := strconv.ParseInt(memory, 10, 64)
	if !ok || cerr != nil || merr != nil {
		return nil, fmt.Errorf("--size %q must be vCPUs and MiB such as 4x4096, or all", text)
	}
	return []executors.Size{{CPUs: c, MemoryMB: m}}, nil
}

func (p program) listTemplates(ctx context.Context, set e2b.Settings) error {
	all, err := e2b.Templates(ctx, set)
	if err != nil {
		return err
	}
	full, err := set.Normal()
	if err != nil {
		return err
	}
	missing := full.Sizes()
	w := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVCPU\tMIB\tENVD\tSTATE\tUSED FOR")
	for _, t := range all {
		use := ""
		for i, s := range missing {
			if slices.Contains(t.Aliases, full.TemplateOf(s.CPUs, s.MemoryMB)) || slices.Contains(t.Names, full.TemplateOf(s.CPUs, s.MemoryMB)) {
				use = fmt.Sprintf("workspaces of %d vCPU", s.CPUs)
				missing = slices.Delete(missing, i, i+1)
				break
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", t.Name(), t.CPUs, t.MemoryMB, t.Envd, t.State, use)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range missing {
		fmt.Fprintf(p.stdout, "There is none for %d vCPU and %d MiB: %s\n", s.CPUs, s.MemoryMB, e2b.BuildCommand(full, s.CPUs, s.MemoryMB))
	}
	return nil
}
