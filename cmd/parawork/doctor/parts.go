package doctor

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/images/recipe"
)

// parts says which programs of agents' tools this machine has. Sandboxes of the places local and bubblewrap run them; containers and
// virtual machines have those of their image.
func (r *report) parts(ctx context.Context, find func(program string) (string, error)) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var there, sets []string
	for _, p := range recipe.Parts() {
		lacks := missing(ctx, p, find)
		if lacks == "" {
			there = append(there, p.Name)
			continue
		}
		if p.Set != "" && !slices.Contains(sets, p.Set) {
			sets = append(sets, p.Set)
		}
		r.say(minor, "tools", p.Name+": "+lacks+" on this machine", "Install it: "+recipe.Install([]recipe.Part{p}))
	}
	if len(there) > 0 {
		r.say(good, "tools", strings.Join(there, ", "), "")
	}
	if len(sets) > 0 {
		list := strings.Join(sets, ",")
		r.say(good, "tools", "One command for all of it: parawork image --host --with "+list, "In containers and virtual machines, which have the programs of their image: parawork docker build --with "+
			list+", parawork e2b template build --with "+list)
	}
}

// missing says what of a part is missing; "" when it is there.
func missing(ctx context.Context, p recipe.Part, find func(program string) (string, error)) string {
	found := len(p.Programs) == 0
	for _, program := range p.Programs {
		if _, err := find(program); err == nil {
			found = true
		}
	}
	if !found {
		return strings.Join(p.Programs, " or ") + " was not found"
	}
	var lacks []string
	for _, m := range p.Modules {
		python, err := find("python3")
		if err != nil || exec.CommandContext(ctx, python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('"+m+"') is None)").Run() != nil {
			lacks = append(lacks, m)
		}
	}
	if len(lacks) > 0 {
		return "python3 has no " + strings.Join(lacks, ", ")
	}
	return ""
}
