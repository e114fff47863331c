package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// CommandSource is where a command comes from.
type CommandSource string

// The sources. Of commands with one name, that of the earlier source counts.
const (
	BuiltIn    CommandSource = "built_in"
	Repository CommandSource = "repository" // a file of the repository
	Skill      CommandSource = "skill"      // a skill of the repository, the project or the team
)

// Command is something that people call by entering / and its name, and then its arguments.
type Command struct {
	Name        string
	Description string
	Hint        string // what its arguments are; "" = unknown or none
	Source      CommandSource
	Text        string // what the model is sent; "" with BuiltIn
}

// builtIn are the agent's own commands.
var builtIn = []Command{
	{Name: "build", Hint: "[PROMPT]", Description: "Changes the mode: the agent may change files and run commands"},
	{Name: "plan", Hint: "[PROMPT]", Description: "Changes the mode: the agent changes nothing but tasks, and makes a plan"},
	{Name: "ask", Hint: "[PROMPT]", Description: "Changes the mode: the agent answers questions and changes nothing"},
	{Name: "review", Hint: "[PROMPT]", Description: "Changes the mode: the agent looks for faults and changes no files"},
	{Name: "model", Hint: "NAME", Description: "Changes the model"},
	{Name: "compact", Description: "Summarizes the conversation"},
	{Name: "undo", Description: "Undoes the last turn, with its changes of files"},
	{Name: "clear", Description: "The model forgets what is above"},
	{Name: "help", Description: "Lists the commands"},
}

// Commands returns what people can call by name in a thread.
func (s *Service) Commands(ctx context.Context, threadID string) ([]Command, error) {
	t, err := s.cfg.Store.Thread(ctx, threadID)
	if err != nil {
		return nil, err
	}
	return s.commands(ctx, t)
}

func (s *Service) commands(ctx context.Context, t Thread) ([]Command, error) {
	names := map[string]bool{}
	var out []Command
	for _, c := range builtIn {
		c.Source, names[c.Name] = BuiltIn, true
		out = append(out, c)
	}
	if s.cfg.Guide == nil {
		return out, nil
	}
	all, err := s.cfg.Guide.Commands(ctx, t)
	for _, c := range all {
		if !names[c.Name] {
			names[c.Name] = true
			out = append(out, c)
		}
	}
	return out, err
}

// help lists the commands for the terminal.
func (s *Service) help(ctx context.Context, t Thread) (string, error) {
	all, err := s.commands(ctx, t)
	if len(all) == 0 {
		return "", err
	}
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "/%s", c.Name)
		if c.Hint != "" {
			b.WriteString(" " + plain(c.Hint))
		}
		fmt.Fprintf(&b, ": %s\n", plain(c.Description))
	}
	if err != nil {
		b.WriteString("Commands and skills of the repository could not be read: " + fault.Words(err, "the sandbox does not answer.") + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// expand replaces a line that calls a command of the repository or a skill by its text, after the line itself. Other lines stay.
func (s *Service) expand(ctx context.Context, t Thread, text string) (string, error) {
	line := strings.TrimSpace(text)
	head, args := line, ""
	if i := strings.IndexAny(line, " \t\n"); i >= 0 {
		head, args = line[:i], strings.TrimSpace(line[i:])
	}
	name, ok := strings.CutPrefix(head, "/")
	if !ok || s.cfg.Guide == nil || name == "" || strings.ContainsAny(name, "/.") || slices.ContainsFunc(builtIn, func(c Command) bool { return c.Name == name }) {
		return text, nil
	}
	c, found, err := s.cfg.Guide.Command(ctx, t, name)
	if err != nil || !found {
		return text, err
	}
	return fmt.Sprintf("%s\n\n<%s name=%q>\n%s\n</%[2]s>", line, kindOf(c), c.Name, fill(c, args)), nil
}

func kindOf(c Command) string {
	if c.Source == Skill {
		return "skill"
	}
	return "command"
}

// fill puts arguments into the text of a command: all of them for $ARGUMENTS, and single words for $1 to $9, which in a skill are more
// likely parts of a script. A text without places for them leaves them to the line that the model reads, too.
func fill(c Command, args string) string {
	pairs := []string{"$ARGUMENTS", args}
	words := strings.Fields(args)
	for i := 1; i <= 9 && c.Source != Skill; i++ {
		word := ""
		if i <= len(words) {
			word = words[i-1]
		}
		pairs = append(pairs, "$"+strconv.Itoa(i), word)
	}
	return strings.NewReplacer(pairs...).Replace(c.Text)
}
