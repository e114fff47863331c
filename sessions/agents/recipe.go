package agents

import (
	"slices"

	"github.com/parawork/parawork/executors/images/recipe"
)

// Recipe describes how an agent is installed and reached. Everything that depends on the built-in agents is derived from it: the
// images and templates that contain them, what members' machines look for, the allowed hosts, whose key an account holds, and the
// keys of config.json.
type Recipe struct {
	Program  string            // the program to start, by its name in PATH; "" = none
	Package  string            // npm package, without a version; "" = it is not from npm
	Version  string            // of Package: the one Parawork was tested with
	Hosts    []string          // hosts it must reach: its model, and where people sign in
	Provider string            // the API its accounts' keys are for: AnthropicAPI or OpenAIAPI; "" = derive it from the key and its address
	Env      map[string]string // its environment wherever it is installed and started: it neither updates itself nor asks to
}

// builtin are the built-in agents, in the order people see them. To add one, write its file and add a line here.
var builtin = []adapter{
	parawork{},
	claudeCode{},
	codex{},
	gemini{},
	openCode{},
	shell{},
	command{},
}

// Known is a built-in agent.
type Known struct {
	Agent string // its name in config.json and the API
	Name  string // display name
	Recipe
}

// Builtin lists the built-in agents, in the order people see them.
func Builtin() []Known {
	out := make([]Known, 0, len(builtin))
	for _, a := range builtin {
		f := a.facts()
		out = append(out, Known{Agent: f.agent, Name: f.name, Recipe: f.recipe})
	}
	return out
}

// Programs returns the programs of the built-in agents, by the agent's name; "" = not always the same.
func Programs() map[string]string {
	out := map[string]string{}
	for _, k := range Builtin() {
		out[k.Agent] = k.Program
	}
	return out
}

// Packages lists the packages of the built-in agents that images and templates contain.
func Packages() []recipe.Package {
	var out []recipe.Package
	for _, k := range Builtin() {
		if k.Package != "" {
			out = append(out, recipe.Package{Program: k.Program, Name: k.Name, NPM: k.Package, Version: k.Version, Env: k.Env})
		}
	}
	return out
}

// Hosts returns what the named agents must reach, as far as Parawork knows them.
func Hosts(names []string) []string {
	var out []string
	for _, k := range Builtin() {
		if slices.Contains(names, k.Agent) {
			out = append(out, k.Hosts...)
		}
	}
	return out
}

// Provider is the API the keys of an agent's accounts are for: AnthropicAPI or OpenAIAPI; "" = derive it from the key and its
// address.
func Provider(name string) string {
	for _, k := range Builtin() {
		if k.Agent == name {
			return k.Provider
		}
	}
	return ""
}
