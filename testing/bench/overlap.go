package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// crowd makes n workspaces of one project, each with changes of its own and some in files all of them change.
func (b *bench) crowd(h *harness, n int) (all []work, project string, err error) {
	dir, err := b.repository("overlap", b.size(10000, 500))
	if err != nil {
		return nil, "", err
	}
	project, err = h.pathProject("crowd", dir)
	if err != nil {
		return nil, "", err
	}
	for i := range n {
		w, err := h.openWorkspace(project, fmt.Sprintf("crowd %d", i))
		if err != nil {
			return nil, "", err
		}
		all = append(all, w)
		if err := b.agentWorks(w, i, 0); err != nil {
			return nil, "", err
		}
		if err := h.do("POST", "/workspaces/"+w.id+"/sync", nil, nil); err != nil {
			return nil, "", err
		}
	}
	return all, project, nil
}

// agentWorks changes 20 files of a workspace, half of which the others change as well, and commits.
func (b *bench) agentWorks(w work, i, round int) error {
	for k := range 20 {
		f := k // the same for all
		if k >= 10 {
			f = 20 + i*10 + k
		}
		f %= b.size(10000, 500)
		p := filepath.Join(w.path, fmt.Sprintf("src/d%03d/f%05d.txt", f/100, f))
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		at := (i*3 + k) % 20 * 80 // a line: some meet, most do not
		copy(text[at:], fmt.Sprintf("workspace %d round %d", i, round))
		if err := os.WriteFile(p, text, 0o644); err != nil {
			return err
		}
	}
	_, err := git(w.path, "commit", "-qam", fmt.Sprintf("Round %d", round))
	return err
}

// overlap measures what a commit costs the server while 50 workspaces of one project are worked in, all that follows from it included.
func (b *bench) overlap() error {
	dir := filepath.Join(b.dir, "overlap")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	own := &bench{binary: b.binary, machine: b.machine, self: b.self, dir: dir, quick: b.quick}
	h, err := own.harness()
	if err != nil {
		return err
	}
	defer own.close()
	n := b.size(50, 4)
	all, project, err := own.crowd(h, n)
	if err != nil {
		return err
	}
	pid := h.cmd.Process.Pid
	window := time.Duration(b.size(10, 6)) * time.Second
	spent := func(do func() error) (time.Duration, error) {
		was := cpuAll(pid)
		if err := do(); err != nil {
			return 0, err
		}
		time.Sleep(window)
		return cpuAll(pid) - was, nil
	}
	time.Sleep(window) // what the making left to do
	var commits, rest []float64
	for round := range b.size(5, 1) {
		idle, err := spent(func() error { return nil })
		if err != nil {
			return err
		}
		w := all[round%n]
		busy, err := spent(func() error {
			if err := own.agentWorks(w, round%n, round+1); err != nil {
				return err
			}
			return h.do("POST", "/workspaces/"+w.id+"/sync", nil, nil)
		})
		if err != nil {
			return err
		}
		rest = append(rest, idle.Seconds())
		commits = append(commits, (busy - idle).Seconds())
	}
	var found struct{ Items []struct{ ID string } }
	if err := h.do("GET", "/projects/"+project+"/overlaps", nil, &found); err != nil {
		return err
	}
	if len(found.Items) == 0 {
		return fmt.Errorf("no overlap was found among %d workspaces", n)
	}
	m := median(commits)
	b.figure(fmt.Sprintf("a commit among %d workspaces, core-seconds", n), fmt.Sprintf("%.2f", m), "1.00", m, "<= 1", m <= 1)
	fmt.Printf("    %d overlaps; with nothing changed %.2f core-seconds in %s; the server has %.0f MB\n", len(found.Items), median(rest), window, float64(rss(pid))/(1<<20))
	return nil
}
