package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// e2bSettings puts together what operators say of E2B in the browser, which config.json goes before, and what only config.json says.
func e2bSettings(cfg *config.Config, v settings.E2B) e2b.Settings {
	c := cfg.Sandboxing.E2B
	s := e2b.Settings{APIKey: v.APIKey, Domain: v.Domain, APIURL: v.APIURL, SandboxURL: v.SandboxURL, Debug: c.Debug, Template: v.Template,
		CPUs: int(v.DefaultCPUs), MemoryMB: int(v.DefaultMemoryMB), MaxRun: time.Duration(v.MaxSessionMinutes) * time.Minute,
		PriceVCPU: c.PriceVCPU, PriceGiB: c.PriceGiB, RequestTimeout: time.Duration(c.RequestTimeout) * time.Second, Retries: c.Retries, Proxy: c.Proxy, Headers: c.Headers}
	if s.Retries == 0 {
		s.Retries = -1 // none, where the room's 0 means its usual number
	}
	return s
}

// e2bFromFile is how E2B is used without what is kept in the database.
func e2bFromFile(cfg *config.Config) e2b.Settings {
	v, _ := baseSettings(cfg) // which of them config.json says is for who changes them
	return e2bSettings(cfg, v.E2B)
}

// newE2B makes the executor, which is there with a key or without: without one it says so.
func newE2B(cfg *config.Config, guest string, ask func(context.Context) e2b.Settings, log *slog.Logger) (*e2b.Executor, error) {
	return e2b.New(e2b.Config{Dir: filepath.Join(cfg.DataDir, "sandboxes"), GuestPath: guest, Log: log,
		Settings: func(ctx context.Context) (e2b.Settings, error) { return ask(ctx), nil }})
}

// tryE2B tries a key and addresses before they are kept.
func (h *house) tryE2B(ctx context.Context, with settings.E2B) (string, error) {
	running, err := e2b.Check(ctx, e2bSettings(h.cfg, with))
	if err != nil {
		return "", err
	}
	switch running {
	case 0:
		return "no sandbox runs there now", nil
	case 1:
		return "1 sandbox runs there now", nil
	}
	return fmt.Sprintf("%d sandboxes run there now", running), nil
}

// gates are where it is enforced what workspaces reach: our gate, and E2B's own walls for what lives there.
type gates struct {
	*gate.Gate
	h *house
}

// Update changes what a workspace's sandboxes may reach.
func (g gates) Update(workspaceID string, n executors.Network) {
	g.Gate.Update(workspaceID, n)
	if p, ok := g.h.places.Live(workspaceID); ok && p.Kind == e2b.Kind {
		g.h.e2b.NetworkChanged(p.SandboxID, n)
	}
}

// Workspaces are those with a sandbox whose network can be changed.
func (g gates) Workspaces() []string {
	out := g.Gate.Workspaces()
	for _, p := range g.h.places.OfKind(e2b.Kind) {
		if !slices.Contains(out, p.WorkspaceID) {
			out = append(out, p.WorkspaceID)
		}
	}
	return out
}

// e2bFound has a sandbox that was found again reach what its workspace reaches now.
func (h *house) e2bFound(p *executors.Place) {
	if p.Kind != e2b.Kind {
		return
	}
	ctx, cancel := context.WithTimeout(tenant.All(context.Background(), "sandboxes that were found again, of every team"), 10*time.Second)
	defer cancel()
	n, err := h.network.Network(ctx, p.WorkspaceID)
	if fault.Is(err, fault.NotFound) { // it is being deleted
		return
	}
	if err != nil {
		h.log.Warn("what a workspace may reach could not be read", "workspace_id", p.WorkspaceID, "error", err)
		return
	}
	h.e2b.NetworkChanged(p.SandboxID, n)
}

const e2bUsage = `usage: parawork e2b template build [--config FILE] [--size CPUSxMIB|all] [--name NAME] [--image IMAGE] [--packages LIST] [--force]
       parawork e2b template list [--config FILE]

Makes the templates that workspaces' sandboxes at E2B are made from: git, ripgrep, Claude Code, Codex and Parawork's guest, on Debian with
Node. The key and addresses are those of config.json and the environment (E2B_API_KEY, E2B_DOMAIN, E2B_API_URL, E2B_SANDBOX_URL).

  --size SIZE      vCPUs and MiB, such as 4x4096, or all sizes that are offered (default: the default size)
  --name NAME      name of the template (default: sandboxing.e2b.template, with the size behind it where it is not the default one)
  --image IMAGE    what it is built upon: Debian with Node (default: node:24-bookworm)
  --packages LIST  npm packages of the agents, separated by commas (default: @anthropic-ai/claude-code,@openai/codex)
  --force          do every step again, which also brings the newest agents
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
	cfg, err := config.Load(*file, p.env)
	if err != nil {
		return err
	}
	set := e2bFromFile(cfg)
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
	var agents []string
	if *packages != "" {
		agents = strings.Split(*packages, ",")
	}
	for _, s := range sizes {
		spec := e2b.BuildSpec{Size: s, Name: *name, Image: *image, Packages: agents, GuestPath: guest, Force: *force}
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
