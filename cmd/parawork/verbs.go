package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/sessions/agents"
)

// verb runs a command of a kind of place, such as parawork docker build.
func (p program) verb(ctx context.Context, d executors.Descriptor, args []string) error {
	for _, v := range d.Verbs {
		words := strings.Fields(v.Name)
		if len(args) < len(words) || strings.Join(args[:len(words)], " ") != v.Name {
			continue
		}
		return v.Run(ctx, executors.CommandLine{Args: args[len(words):], Agents: agents.Packages(), Output: p.stdout, Parse: p.parse, Guest: p.guest,
			Config: func(file string) (schema.Values, string, error) {
				cfg, err := p.config(file)
				if err != nil {
					return schema.Values{}, "", err
				}
				return fromconfig.PlaceValues(cfg, p.kinds, d.Kind), cfg.DataDir, nil
			}})
	}
	fmt.Fprint(p.stderr, d.Verbs[0].Usage)
	return errUsage
}
