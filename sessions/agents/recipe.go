package agents

import (
	"slices"

	"github.com/parawork/parawork/executors/images/recipe"
)

// Recipe is what an agent is made of. All that depends on the agents Parawork knows is made from it: the images and templates that hold
// them, what members' machines look for, the hosts that are let through, whose key an account holds, and the keys of config.json.
type Recipe struct {
	Program  string            // what is started, by its name in PATH; "" = none of its own
	Package  string            // npm's, without a version; "" = it comes from elsewhere
	Version  string            // of Package: the one Parawork was tried with
	Hosts    []string          // what it must reach: its model, and where people sign in
	Provider string            // whose API its accounts' keys are for: AnthropicAPI or OpenAIAPI; "" = the key and its address tell
	Env      map[string]string // what it is told wherever it is installed and started: it neither updates itself nor asks to
}

// builtin are the agents Parawork knows by itself, in the order people see them. One more is a file of its own and a line here.
var builtin = []adapter{
	claudeCode{},
	codex{},
	gemini{},
	openCode{},
	shell{},
	command{},
}

// Known is an agent Parawork knows by itself.
type Known struct {
	Agent string // its name in config.json and the API
	Name  string // for people
	Recipe
}

// Builtin lists the agents Parawork knows by itself, in the order people see them.
func Builtin() []Known {
	out := make([]Known, 0, len(builtin))
	for _, a := range builtin {
		f := a.facts()
		out = append(out, Known{Agent: f.agent, Name: f.name, Recipe: f.recipe})
	}
	return out
}

// Programs are the programs of the agents Parawork knows by itself, by the agent's name; "" = none that is always the same.
func Programs() map[string]string {
	out := map[string]string{}
	for _, k := range Builtin() {
		out[k.Agent] = k.Program
	}
	return out
}

// Packages are what images and templates hold of the agents Parawork knows by itself.
func Packages() []recipe.Package {
	var out []recipe.Package
	for _, k := range Builtin() {
		if k.Package != "" {
			out = append(out, recipe.Package{Program: k.Program, Name: k.Name, NPM: k.Package, Version: k.Version, Env: k.Env})
		}
	}
	return out
}

// Hosts are what the named agents must reach, as far as Parawork knows them.
func Hosts(names []string) []string {
	var out []string
	for _, k := range Builtin() {
		if slices.Contains(names, k.Agent) {
			out = append(out, k.Hosts...)
		}
	}
	return out
}

// Provider is whose API the keys of an agent's accounts are for: AnthropicAPI or OpenAIAPI; "" = the key and its address tell.
func Provider(name string) string {
	for _, k := range Builtin() {
		if k.Agent == name {
			return k.Provider
		}
	}
	return ""
}
