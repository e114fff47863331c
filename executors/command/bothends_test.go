package command

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestKeeperKeepsBothEnds(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, OutputKeep - 1, OutputKeep, OutputKeep + 1, 2*OutputKeep - 1, 2 * OutputKeep, 2*OutputKeep + 1, 5*OutputKeep + 777} {
		all := make([]byte, size)
		rnd := rand.New(rand.NewPCG(uint64(size), 7))
		for i := range all {
			all[i] = byte(rnd.Uint32())
		}
		for _, step := range []int{1 << 20, 32 << 10, 4097, OutputKeep * 3} {
			var k keeper
			for off := 0; off < size; {
				n := min(step, size-off)
				k.add(int64(off), all[off:off+n])
				if off > 100 && step == 4097 { // a repeated piece changes nothing
					k.add(int64(off-100), all[off-100:off])
				}
				off += n
			}
			want := all
			if size > 2*OutputKeep {
				want = append(bytes.Clone(all[:OutputKeep]), all[size-OutputKeep:]...)
			}
			got, cut := k.bytes()
			if !bytes.Equal(got, want) || cut != (size > 2*OutputKeep) || k.offset() != int64(size) {
				t.Errorf("size %d by %d: %d bytes kept, cut %v, offset %d", size, step, len(got), cut, k.offset())
			}
			for _, off := range []int{0, 1, size / 2, OutputKeep, size - 1, size, size + 5} {
				from := min(max(off, 0), size)
				if cut {
					from = max(from, size-OutputKeep)
				}
				if p, first, end := k.after(int64(off)); first != int64(from) || end != int64(size) || !bytes.Equal(p, all[from:]) {
					t.Errorf("size %d by %d after %d: %d bytes from %d to %d", size, step, off, len(p), first, end)
				}
			}
		}
	}
}

func TestKeeperNotesAGap(t *testing.T) {
	t.Parallel()
	var k keeper
	k.add(0, []byte("abc"))
	k.add(10, []byte("xyz"))
	got, cut := k.bytes()
	if string(got) != "abcxyz" || !cut || k.offset() != 13 {
		t.Errorf("%q, cut %v, offset %d", got, cut, k.offset())
	}
}
