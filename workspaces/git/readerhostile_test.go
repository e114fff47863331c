package git

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/hostgit"
)

// packed is an object as somebody writes it into a pack, with the place that the index gives for it.
type packed struct {
	id     string
	kind   byte   // 1 commit, 2 tree, 3 blob, 6 delta by offset, 7 delta by name
	size   uint64 // as its header says
	before []byte // what stands between header and content
	data   []byte
}

func squeezed(b []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// writePack writes a pack and its index, right or wrong.
func writePack(t *testing.T, gitDir string, objects []packed) {
	t.Helper()
	var pack bytes.Buffer
	pack.WriteString("PACK")
	number := func(w io.Writer, n int) { must(t, binary.Write(w, binary.BigEndian, uint32(n))) }
	number(&pack, 2)
	number(&pack, len(objects))
	at := make(map[string]int)
	for _, o := range objects {
		at[o.id] = pack.Len()
		c, n := o.kind<<4|byte(o.size&15), o.size>>4
		for ; n > 0; n >>= 7 {
			pack.WriteByte(c | 0x80)
			c = byte(n & 0x7f)
		}
		pack.WriteByte(c)
		pack.Write(o.before)
		pack.Write(squeezed(o.data))
	}
	ids := make([]string, 0, len(at))
	for id := range at {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var index bytes.Buffer
	index.WriteString(indexV2)
	for b := range 256 {
		i, _ := slices.BinarySearch(ids, fmt.Sprintf("%02xg", b))
		number(&index, i)
	}
	for _, id := range ids {
		b, err := hex.DecodeString(id)
		must(t, err)
		index.Write(b)
	}
	for range ids {
		number(&index, 0)
	}
	for _, id := range ids {
		number(&index, at[id])
	}
	index.Write(make([]byte, 40))
	sum := sha1.Sum(pack.Bytes())
	pack.Write(sum[:])
	name := filepath.Join(gitDir, "objects/pack", "pack-"+hex.EncodeToString(sum[:]))
	must(t, os.WriteFile(name+".pack", pack.Bytes(), 0o644))
	must(t, os.WriteFile(name+".idx", index.Bytes(), 0o644))
}

func raw(id string) []byte { b, _ := hex.DecodeString(id); return b }

func nameOf(kind string, b []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", kind, len(b)), b...))
	return hex.EncodeToString(sum[:])
}

// Whatever a repository contains, reading it in this process ends soon, with little memory, and returns either the requested object or
// nothing.
func TestReaderOfHostilePacks(t *testing.T) { // not in parallel: it looks at the whole process's memory
	s := plainRepo(t)
	empty := []byte("tree " + nameOf("tree", nil) + "\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nx\n")
	good := nameOf("commit", empty)
	bomb := make([]byte, 32<<20)
	loop := strings.Repeat("ab", 20)
	delta := func(from, to uint64, rest ...byte) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, from), to), rest...)
	}
	commit := packed{id: good, kind: 1, size: uint64(len(empty)), data: empty}
	for name, of := range map[string]struct {
		objects []packed
		ask     string
		reads   bool
	}{
		"good":                    {[]packed{commit}, good, true},
		"another content":         {[]packed{{id: loop, kind: 1, size: uint64(len(empty)), data: empty}}, loop, false},
		"another kind":            {[]packed{{id: good, kind: 3, size: uint64(len(empty)), data: empty}}, good, false},
		"a kind there is not":     {[]packed{{id: good, kind: 5, size: uint64(len(empty)), data: empty}}, good, false},
		"more than it says":       {[]packed{{id: loop, kind: 1, size: 10, data: bomb}}, loop, false},
		"less than it says":       {[]packed{{id: good, kind: 1, size: uint64(len(empty) + 1), data: empty}}, good, false},
		"as much as it says":      {[]packed{{id: loop, kind: 1, size: uint64(len(bomb)), data: bomb}}, loop, false},
		"a size beyond all":       {[]packed{{id: loop, kind: 1, size: 1 << 62, data: empty}}, loop, false},
		"a delta of itself":       {[]packed{{id: loop, kind: 7, size: 4, before: raw(loop), data: delta(1, 1, 1, 'x')}}, loop, false},
		"deltas of each other":    {[]packed{{id: loop, kind: 7, size: 4, before: raw(good), data: delta(1, 1, 1, 'x')}, {id: good, kind: 7, size: 4, before: raw(loop), data: delta(1, 1, 1, 'x')}}, good, false},
		"a delta of nothing":      {[]packed{{id: loop, kind: 7, size: 4, before: raw(good), data: delta(1, 1, 1, 'x')}}, loop, false},
		"a delta at its place":    {[]packed{{id: loop, kind: 6, size: 4, before: []byte{0}, data: delta(1, 1, 1, 'x')}}, loop, false},
		"a delta before the pack": {[]packed{{id: loop, kind: 6, size: 4, before: []byte{0x7f}, data: delta(1, 1, 1, 'x')}}, loop, false},
		"a delta of much":         {[]packed{commit, {id: loop, kind: 7, size: 30, before: raw(good), data: delta(uint64(len(empty)), 1<<40, 0x91, 0, 1)}}, loop, false},
		"a delta of no size":      {[]packed{commit, {id: loop, kind: 7, size: 11, before: raw(good), data: bytes.Repeat([]byte{0xff}, 11)}}, loop, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "repo.git")
			run(t, "", "", "init", "-q", "--bare", dir)
			writePack(t, dir, of.objects)
			spent := memory(func() {
				c, err := inProcess(t.Context(), dir, func(r *reader) (string, error) { return r.commitOf(t.Context(), of.ask) })
				if (err == nil) != of.reads || of.reads && c != good {
					t.Errorf("%q, %v", c, err)
				}
			})
			if spent > 16<<20 {
				t.Errorf("it takes %d MiB", spent>>20)
			}
		})
	}

	t.Run("a long chain", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "repo.git")
		run(t, "", "", "init", "-q", "--bare", dir)
		all := []packed{commit}
		for i := range 2000 {
			all = append(all, packed{id: fmt.Sprintf("%040x", i), kind: 7, size: 6, before: raw(all[len(all)-1].id), data: delta(uint64(len(empty)), uint64(len(empty)), 0x90, byte(len(empty)))})
		}
		writePack(t, dir, all)
		if _, err := inProcess(t.Context(), dir, func(r *reader) (int64, error) { return r.size(t.Context(), all[2000].id) }); err == nil {
			t.Error("it is followed")
		}
	})
	t.Run("a loose bomb", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "repo.git")
		run(t, "", "", "init", "-q", "--bare", dir)
		for i, content := range [][]byte{bomb, append([]byte("commit "), bytes.Repeat([]byte("9"), 32<<20)...), append([]byte("commit 10\x00"), bomb...),
			append([]byte("commit 33554432\x00"), bomb...), []byte("commit -1\x00"), []byte("what 1\x00x"), []byte("commit 1"), nil} {
			id := fmt.Sprintf("ab%038x", i)
			must(t, os.MkdirAll(filepath.Join(dir, "objects/ab"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "objects/ab", id[2:]), squeezed(content), 0o644))
			spent := memory(func() {
				if c, err := inProcess(t.Context(), dir, func(r *reader) (string, error) { return r.commitOf(t.Context(), id) }); err == nil {
					t.Errorf("%d: %q", i, c)
				}
			})
			if spent > 8<<20 {
				t.Errorf("%d takes %d MiB", i, spent>>20)
			}
		}
	})
	t.Run("trees of trees", func(t *testing.T) { // 2^30 files in a few objects, or none at all
		for _, leaf := range []string{"100644 a\x00" + string(raw(nameOf("blob", nil))), ""} {
			dir := filepath.Join(t.TempDir(), "repo.git")
			run(t, "", "", "init", "-q", "--bare", dir)
			run(t, dir, "", "hash-object", "-w", "--stdin")
			content := leaf
			for range 30 {
				sub := string(raw(run(t, dir, content, "hash-object", "-w", "-t", "tree", "--stdin")))
				content = "40000 a\x00" + sub + "40000 b\x00" + sub
			}
			top := run(t, dir, content, "hash-object", "-w", "-t", "tree", "--stdin")
			if files, err := inProcess(t.Context(), dir, func(r *reader) ([]hostgit.TreeFile, error) { return r.files(t.Context(), top, []string{"a"}, true) }); err == nil {
				t.Errorf("%d files", len(files))
			}
		}
	})
	t.Run("an index of nonsense", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "repo.git")
		run(t, "", "", "init", "-q", "--bare", dir)
		writePack(t, dir, []packed{commit})
		names, err := filepath.Glob(filepath.Join(dir, "objects/pack/*.idx"))
		must(t, err)
		whole, err := os.ReadFile(names[0])
		must(t, err)
		falling := slices.Concat([]byte(indexV2), bytes.Repeat([]byte{0, 0, 0, 9, 0, 0, 0, 1}, 128), make([]byte, 400))
		for i, b := range [][]byte{nil, whole[:1000], whole[:len(whole)-60], bytes.Replace(whole, []byte{0, 0, 0, 2}, []byte{0, 0, 0, 1}, 1), falling,
			slices.Concat([]byte(indexV2), bytes.Repeat([]byte{0xff}, 1024), make([]byte, 400)), slices.Concat(whole[:1024+8+24], []byte{0xff, 0xff, 0xff, 0xff}, make([]byte, 40))} {
			must(t, os.WriteFile(names[0], b, 0o644))
			if c, err := inProcess(t.Context(), dir, func(r *reader) (string, error) { return r.commitOf(t.Context(), good) }); err == nil {
				t.Errorf("%d: %q", i, c)
			}
		}
	})
	t.Run("a cancelled call", func(t *testing.T) {
		dir := sampleRepo(t, 12)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := inProcess(ctx, dir, func(r *reader) (string, error) {
			cancel()
			return r.commitOf(ctx, "refs/heads/main")
		}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := s.CommitOf(ctx, dir, "refs/heads/main"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// memory is what fn allocates in total.
func memory(fn func()) uint64 {
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	fn()
	runtime.ReadMemStats(&is)
	return is.TotalAlloc - was.TotalAlloc
}

// Damage to packs, indexes and loose objects never changes an answer: it is right, or git's program is asked.
func TestReaderOfDamage(t *testing.T) {
	t.Parallel()
	s := plainRepo(t)
	dir := sampleRepo(t, 14)
	rng := rand.New(rand.NewPCG(3, 3))
	commits := strings.Fields(run(t, dir, "", "rev-list", "--all"))
	trees := make(map[string]string)
	for _, c := range commits[:30] {
		trees[c] = run(t, dir, "", "rev-parse", c+"^{tree}")
	}
	files, err := lsTree(t, s, dir, commits[0], nil, true)
	must(t, err)
	objects, err := filepath.Glob(filepath.Join(dir, "objects/*/*"))
	must(t, err)
	read := 0
	for range 40 {
		name := objects[rng.IntN(len(objects))]
		was, err := os.ReadFile(name)
		must(t, err)
		must(t, os.Chmod(name, 0o644))
		bad := slices.Clone(was)
		for range 1 + rng.IntN(200) {
			bad[rng.IntN(len(bad))] = byte(rng.Uint32())
		}
		must(t, os.WriteFile(name, bad[:len(bad)-rng.IntN(2)*rng.IntN(len(bad))], 0o644))
		for _, c := range commits[:30] {
			if tree, err := inProcess(t.Context(), dir, func(r *reader) (string, error) { return r.treeOf(t.Context(), c) }); err == nil {
				if read++; tree != trees[c] {
					t.Errorf("the tree of %s is %s, want %s", c, tree, trees[c])
				}
			}
		}
		for _, f := range files {
			if b, err := inProcess(t.Context(), dir, func(r *reader) ([][]byte, error) { return r.blobs(t.Context(), []hostgit.TreeFile{f}) }); err == nil && nameOf("blob", b[0]) != f.OID {
				t.Errorf("another content of %s", f.Path)
			}
		}
		must(t, os.WriteFile(name, was, 0o644))
	}
	if read == 0 {
		t.Error("nothing was read")
	}
}
