package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// seen is what page.mjs answers. Times are in ms, heap in bytes.
type seen struct {
	Cold, Warm   []float64
	Heap         float64
	Steps        [][]string
	Frames, Late int
	Worst, Work  float64
}

// inPage has a real Chromium do something on a page of the instance. ask is added to what page.mjs needs anyway.
func (h *harness) inPage(page string, ask map[string]any) (s seen, err error) {
	ask["url"], ask["email"], ask["password"], ask["page"] = h.url, "bench@example.com", "a long bench password", page
	b, err := json.Marshal(ask)
	if err != nil {
		return s, err
	}
	if _, err := os.Stat("e2e/node_modules/playwright-core"); err != nil {
		return s, errors.New("e2e/node_modules is missing: run npm ci in e2e")
	}
	cmd := exec.Command("node", "testing/bench/page.mjs", string(b))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return s, fmt.Errorf("in Chromium: %w", err)
	}
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		return s, fmt.Errorf("page.mjs said %.200q: %w", out.String(), err)
	}
	if os.Getenv("BENCH_VERBOSE") != "" {
		for _, steps := range s.Steps {
			fmt.Fprintln(os.Stderr, "   ", strings.Join(steps, ", "))
		}
	}
	return s, nil
}

// madeFile is one file of a workspace and how its lines change.
type madeFile struct {
	path  string
	lines int
	edit  int // of every so many lines one changes; 0 = none
}

// work is a workspace whose files differ from its base.
type work struct{ id, page, path string }

// source is a line of a program, so that there is something to colour.
func source(file, line int, after string) string {
	return fmt.Sprintf("export const value%d = compute(%d, \"%s\", { depth: %d, name: `part-%d` }); // line %d\n", line, file*1000+line, after, line%7, file, line)
}

func (f madeFile) text(n int, changed bool) string {
	var b strings.Builder
	for i := range f.lines {
		word := "before"
		if changed && f.edit > 0 && i%f.edit == 0 {
			word = "after"
		}
		b.WriteString(source(n, i, word))
	}
	return b.String()
}

func (h *harness) pathProject(name, dir string) (string, error) {
	var p struct{ ID string }
	err := h.do("POST", "/teams/"+h.team+"/projects", map[string]any{"name": name, "source": map[string]any{"kind": "path", "path": dir}}, &p)
	return p.ID, err
}

// changed makes a repository of these files and a workspace of it in which they are changed.
func (b *bench) changed(h *harness, name string, files []madeFile) (work, error) {
	dir := filepath.Join(b.dir, "repo-"+name)
	write := func(root string, changed bool) error {
		for i, f := range files {
			to := filepath.Join(root, f.path)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(to, []byte(f.text(i, changed)), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(dir, false); err != nil {
		return work{}, err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "gc.auto=0", "commit", "-q", "-m", "all"}, {"gc", "-q"}} {
		if _, err := git(dir, args...); err != nil {
			return work{}, err
		}
	}
	project, err := h.pathProject(name, dir)
	if err != nil {
		return work{}, err
	}
	w, err := h.openWorkspace(project, name)
	if err != nil {
		return work{}, err
	}
	if err := write(w.path, true); err != nil {
		return work{}, err
	}
	return w, h.do("POST", "/workspaces/"+w.id+"/sync", nil, nil)
}

// openWorkspace makes a workspace and says where it is.
func (h *harness) openWorkspace(project, name string) (work, error) {
	id, err := h.newWorkspace(project, name)
	if err != nil {
		return work{}, err
	}
	var ws struct{ Key, Path string }
	if err := h.do("GET", "/workspaces/"+id, nil, &ws); err != nil {
		return work{}, err
	}
	return work{id: id, page: "/" + h.team + "/w/" + ws.Key, path: ws.Path}, nil
}

// within prints the median and the worst of times, in ms, against what was asked.
func (b *bench) within(name string, ms []float64, asked float64) {
	if len(ms) == 0 {
		return
	}
	m, worst := median(ms), slices.Max(ms)
	b.figure(name+", ms (worst "+fmt.Sprintf("%.0f", worst)+")", fmt.Sprintf("%.0f", m), fmt.Sprintf("%.0f", asked), m/asked, "<= 1", m <= asked)
}

// diff measures the time from the click on Changes to a screen full of lines, and what the page holds then.
func (b *bench) diff() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name  string
		files int
		lines int
		edit  int // two changed lines for each
		asked float64
		heap  float64 // MB; 0 = it is not asked
	}{
		{"4,000 lines in 20 files", 20, 600, 6, 300, 0},
		{"50,000 lines in 100 files", 100, 1000, 4, 1000, 60},
	} {
		n := b.size(c.files, 2)
		var files []madeFile
		for i := range n {
			files = append(files, madeFile{fmt.Sprintf("src/part%02d/module%03d.ts", i/10, i), c.lines, c.edit})
		}
		w, err := b.changed(h, "diff "+strings.ReplaceAll(c.name, ",", ""), files)
		if err != nil {
			return err
		}
		s, err := h.inPage(w.page, map[string]any{"what": "diff", "runs": b.size(5, 1)})
		if err != nil {
			return err
		}
		b.within("diff of "+c.name+", first click", s.Cold, c.asked)
		b.within("diff of "+c.name+", again", s.Warm, c.asked)
		if c.heap > 0 {
			b.figure("diff of "+c.name+", page heap, MB", f1(s.Heap/1e6), f1(c.heap), s.Heap/1e6/c.heap, "< 1", s.Heap/1e6 < c.heap)
		}
	}
	// Files of more than 800 changed lines are folded until somebody opens them.
	for _, c := range []struct {
		lines       int
		asked, heap float64
	}{{4000, 300, 0}, {50000, 1000, 60}} {
		w, err := b.changed(h, fmt.Sprintf("one-%d", c.lines), []madeFile{{"src/large.ts", b.size(c.lines, 2000) / 2, 1}})
		if err != nil {
			return err
		}
		s, err := h.inPage(w.page, map[string]any{"what": "unfold", "runs": b.size(5, 1)})
		if err != nil {
			return err
		}
		b.within(fmt.Sprintf("one file of %d lines, opened", c.lines), s.Cold, c.asked)
		if c.heap > 0 {
			b.figure(fmt.Sprintf("one file of %d lines, page heap, MB", c.lines), f1(s.Heap/1e6), f1(c.heap), s.Heap/1e6/c.heap, "< 1", s.Heap/1e6 < c.heap)
		}
	}
	return nil
}

// scroll measures the list of 5,000 changed files, and their lines, while they are scrolled through.
func (b *bench) scroll() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	n := b.size(5000, 200)
	var files []madeFile
	for i := range n {
		files = append(files, madeFile{fmt.Sprintf("src/part%02d/area%d/module%04d.ts", i/100, i/20%5, i), 20, 20})
	}
	w, err := b.changed(h, "list", files)
	if err != nil {
		return err
	}
	for _, c := range []struct{ name, list, rows string }{
		{"list of files", "[data-files]", "[data-files] [role=treeitem]"},
		{"lines of files", ".diff", ".diff .diff-line"},
	} {
		s, err := h.inPage(w.page, map[string]any{"what": "scroll", "runs": b.size(3, 1), "list": c.list, "rows": c.rows, "frames": b.size(600, 60)})
		if err != nil {
			return err
		}
		late, work := 100*float64(s.Late)/float64(s.Frames), s.Work/float64(s.Frames)
		b.figure(fmt.Sprintf("%s, %d files: frames left out, %%", c.name, n), fmt.Sprintf("%.1f", late), "1.0", late, "<= 1", late <= 1)
		b.figure(fmt.Sprintf("%s, %d files: CPU per frame, ms", c.name, n), fmt.Sprintf("%.1f", work), "16.7", work/16.7, "< 1", work < 16.7)
		fmt.Printf("    %d frames, the longest %.0f ms\n", s.Frames, s.Worst)
	}
	return nil
}
