package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/store"
)

// places says where workspaces can live: the words of the web app.
func (r *report) places(ctx context.Context, cfg *config.Config, kinds executors.Descriptors, st store.State, guest string) {
	teams := func(context.Context) (int, error) { return max(int(st.Teams), 1), nil }
	groups, err := fromconfig.OpenGroups(cfg.DataDir)
	if err != nil {
		groups = nil // the line of the limits says why
	}
	made, err := fromconfig.NewExecutors(cfg, kinds, fromconfig.Site{Guest: guest, Groups: groups, Teams: teams, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.say(bad, "place", err.Error(), "")
		return
	}
	defer made.Close()
	cc := fromconfig.PlaceRules(cfg, kinds, teams)
	cc.Executors = executors.NewRegistry(made)
	ch := choice.New(cc)
	options, _, err := ch.Options(ctx, "")
	if err != nil {
		r.say(bad, "place", err.Error(), "")
		return
	}
	defer r.strangers(ctx, cfg, st, made)
	works := 0
	for _, s := range options {
		if s.Available && s.Allowed {
			works++
		}
		r.place(s)
		if d, _ := kinds.Find(s.Kind); d.Examine != nil && s.Available && s.Allowed {
			for _, f := range d.Examine(ctx, fromconfig.PlaceValues(cfg, kinds, s.Kind), s.Capabilities) {
				r.say(minor, "place", fmt.Sprintf("%s: %s", s.Kind, f.Found), f.Cure)
			}
		}
	}
	def, err := ch.Choose(ctx, "")
	switch {
	case err != nil && works == 0:
		r.say(bad, "place", "no place to work: "+err.Error(), "Fix one of the places above.")
	case err != nil:
		r.say(bad, "place", "the default (sandboxing.defaultProvider: "+cfg.Sandboxing.DefaultProvider+") cannot be used: "+err.Error(), "")
	default:
		r.say(good, "place", fmt.Sprintf("new workspaces that name none live in %s", def), "")
	}
	if w := cfg.Sandboxing.WeakestBoundary; w != "" {
		r.say(good, "place", "sandboxing.weakestBoundary asks for at least: "+strings.ToLower(executors.Boundary(w).Name()), "")
	}
	if err := fromconfig.CheckDefault(ctx, cfg, kinds, ch, slog.New(slog.DiscardHandler)); err != nil {
		r.say(bad, "place", err.Error(), "")
	}
}

// place says how one place stands.
func (r *report) place(s choice.Option) {
	name := fmt.Sprintf("%s: ", s.Kind)
	switch {
	case !s.Available:
		r.say(minor, "place", name+"cannot be used: "+s.Reason, s.Cure)
		return
	case !s.Allowed:
		r.say(minor, "place", name+s.Forbidden, "")
		return
	}
	words := []string{strings.ToLower(s.Boundary.Name())}
	if s.Isolation != "" {
		words = append(words, s.Isolation)
	}
	words = append(words, enforced("limits", s.Limits), enforced("network", s.Network))
	if s.StartMs > 0 {
		words = append(words, fmt.Sprintf("ready in about %d ms", s.StartMs))
	}
	result, cure := good, ""
	if s.Warning != "" {
		result, cure = minor, s.Warning
	}
	r.say(result, "place", name+strings.Join(words, "; "), cure)
}

func enforced(what string, yes bool) string {
	if yes {
		return what + " enforced"
	}
	return what + " not enforced"
}
