package repository

import (
	"context"
	"path"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
)

// Folders of a repository that hold skills and commands. Of two with one name, that of the earlier folder counts.
var (
	skillFolders   = []string{".parawork/skills", ".agents/skills", ".claude/skills"}
	commandFolders = []string{".parawork/commands", ".claude/commands"}
)

// Skill is a skill or a command of a repository.
type Skill struct {
	Name        string // lower-case letters, digits and hyphens
	Description string
	Hint        string // what a command's arguments are
	Path        string // of its file
	Text        string // without the front matter
	Command     bool   // a command: a prompt for people to send; a skill is for the model, too
}

// Skills returns the skills of a repository, without their texts.
func (r *Reader) Skills(ctx context.Context, workspaceID string) ([]Skill, error) {
	return r.all(ctx, workspaceID, true, false)
}

// Commands returns the commands and skills of a repository, which people can call by name. Of two with one name the command counts.
func (r *Reader) Commands(ctx context.Context, workspaceID string) ([]Skill, error) {
	return r.all(ctx, workspaceID, true, true)
}

// Skill returns a skill with its text. Errors: skill_not_found.
func (r *Reader) Skill(ctx context.Context, workspaceID, name string) (Skill, error) {
	return r.one(ctx, workspaceID, name, false)
}

// Command returns the command, or else the skill, of a name with its text. Errors: skill_not_found.
func (r *Reader) Command(ctx context.Context, workspaceID, name string) (Skill, error) {
	return r.one(ctx, workspaceID, name, true)
}

func (r *Reader) one(ctx context.Context, workspaceID, name string, commands bool) (Skill, error) {
	if GoodName(name) {
		w, err := r.begin(ctx, workspaceID)
		if err != nil {
			return Skill{}, err
		}
		defer w.done()
		for _, s := range candidates(name, commands) {
			if ok, err := w.fill(ctx, &s); err != nil || ok {
				return s, err
			}
		}
		all, err := w.all(ctx, true, commands) // its front matter may name it otherwise than its folder
		for _, s := range all {
			if s.Name == name {
				_, err := w.fill(ctx, &s)
				return s, err
			}
		}
		if err != nil {
			return Skill{}, err
		}
	}
	return Skill{}, fault.New(fault.NotFound, "skill_not_found", "There is no skill %q.", safetext.Cut(safetext.Line(name), maxName))
}

// candidates are the files in which something of a name usually is.
func candidates(name string, commands bool) (out []Skill) {
	if commands {
		for _, f := range commandFolders {
			out = append(out, Skill{Name: name, Path: path.Join(f, name+".md"), Command: true})
		}
	}
	for _, f := range skillFolders {
		out = append(out, Skill{Name: name, Path: path.Join(f, name, "SKILL.md")})
	}
	return out
}

func (r *Reader) all(ctx context.Context, workspaceID string, skills, commands bool) ([]Skill, error) {
	w, err := r.begin(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	defer w.done()
	out, err := w.all(ctx, skills, commands)
	for i := range out {
		out[i].Text = ""
	}
	return out, err
}

func (w *work) all(ctx context.Context, skills, commands bool) ([]Skill, error) {
	var found []Skill
	if commands {
		for _, folder := range commandFolders {
			items, err := w.list(ctx, folder)
			if err != nil {
				return nil, err
			}
			for _, f := range items {
				if name, ok := strings.CutSuffix(f.Name, ".md"); ok && GoodName(name) {
					found = append(found, Skill{Name: name, Path: path.Join(folder, f.Name), Command: true})
				}
			}
		}
	}
	if skills {
		for _, folder := range skillFolders {
			items, err := w.list(ctx, folder)
			if err != nil {
				return nil, err
			}
			for _, f := range items {
				if f.Type != "file" && GoodName(f.Name) {
					found = append(found, Skill{Name: f.Name, Path: path.Join(folder, f.Name, "SKILL.md")})
				}
			}
		}
	}
	found = found[:min(len(found), MaxSkills)]
	there := make([]bool, len(found))
	err := each(len(found), func(i int) (err error) {
		there[i], err = w.fill(ctx, &found[i])
		return err
	})
	seen, out := map[string]bool{}, []Skill{}
	for i, s := range found {
		if there[i] && !seen[s.Name] {
			seen[s.Name] = true
			out = append(out, s)
		}
	}
	return out, err
}

// fill reads the file of a skill; false when there is none. A skill whose front matter cannot be read has its folder's name.
func (w *work) fill(ctx context.Context, s *Skill) (bool, error) {
	text, ok, err := w.read(ctx, s.Path)
	if !ok || err != nil {
		return false, err
	}
	front, body := Split(text)
	s.Text, s.Description, s.Hint = strings.TrimSpace(body), front.Description, front.Hint
	if !s.Command && GoodName(front.Name) {
		s.Name = front.Name
	}
	if s.Description == "" { // the first line says what it is about
		line, _, _ := strings.Cut(strings.TrimLeft(s.Text, "# \n"), "\n")
		s.Description = safetext.Cut(safetext.Line(line), maxAbout)
	}
	return true, nil
}
