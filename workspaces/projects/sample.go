package projects

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/parawork/parawork/workspaces"
)

// sampleStep is one commit of the sample project.
type sampleStep struct {
	message string
	files   map[string]string
}

// sampleSteps are the sample's history: a tiny program people and agents can change, run and test with only python3 or sh.
func sampleSteps() []sampleStep {
	return []sampleStep{
		{"Start a word counter", map[string]string{
			"README.md": "# wordcount\n\nCounts lines, words and characters of text.\n\n    python3 wordcount.py README.md\n    python3 -m unittest\n",
			"wordcount.py": `"""Count lines, words and characters of text files."""
import sys


def count(text):
    """Return (lines, words, characters) of text."""
    return text.count("\n"), len(text.split()), len(text)


def main(paths):
    for path in paths:
        with open(path, encoding="utf-8") as f:
            lines, words, chars = count(f.read())
        print(f"{lines:8}{words:8}{chars:8} {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
`,
		}},
		{"Test the counter", map[string]string{
			"test_wordcount.py": `import unittest

from wordcount import count


class CountTest(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(count(""), (0, 0, 0))

    def test_words(self):
        self.assertEqual(count("one two\nthree\n"), (2, 3, 14))


if __name__ == "__main__":
    unittest.main()
`,
			".gitignore": "__pycache__/\n.env\n",
		}},
		{"Write down what is missing", map[string]string{
			"TODO.md": "- The most frequent words (--top N)\n- Read standard input when no file is named\n- A total line for several files\n",
		}},
	}
}

// createSample makes a small real repository, so that nobody needs their own to start.
func (s *Service) createSample(ctx context.Context, p workspaces.Project) (workspaces.Project, error) {
	root := filepath.Join(s.transfer.ProjectDir(p.ID), "sample")
	p.Source, p.GitDir, p.DefaultBranch = root, filepath.Join(root, ".git"), "main"
	if err := writeSample(root, s.cfg.Now()); err != nil {
		_ = s.repo.RemoveFolder(s.transfer.ProjectDir(p.ID))
		return workspaces.Project{}, fmt.Errorf("making the sample: %w", err)
	}
	p, err := s.insertProject(ctx, p, "Sample: wordcount")
	if err != nil {
		_ = s.repo.RemoveFolder(s.transfer.ProjectDir(p.ID))
		return workspaces.Project{}, err
	}
	return p, nil
}

func writeSample(root string, now time.Time) error {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	repo, err := git.PlainInitWithOptions(root, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: plumbing.NewBranchReferenceName("main")}})
	if err != nil {
		return err
	}
	tree, err := repo.Worktree()
	if err != nil {
		return err
	}
	steps := sampleSteps()
	for i, st := range steps {
		for name, text := range st.files {
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				return err
			}
			if _, err := tree.Add(name); err != nil {
				return err
			}
		}
		who := &object.Signature{Name: "Parawork", Email: "parawork@localhost", When: now.Add(time.Duration(i-len(steps)) * time.Hour)}
		if _, err := tree.Commit(st.message+"\n", &git.CommitOptions{Author: who, Committer: who}); err != nil {
			return err
		}
	}
	// Ignored by git, copied into each workspace: it demonstrates "copy ignored files".
	return os.WriteFile(filepath.Join(root, ".env"), []byte("WORDCOUNT_GREETING=hello\n"), 0o600)
}
