package audit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// heads is the content of the file outside of the database: the position of each chain. A chain whose row at that position does not have
// the recorded seal was truncated or rewritten.
type heads struct {
	Chains map[string]head `json:"chains"`
	// Lost are ends of chains that were seen and are now missing, as evidence.
	Lost []lost `json:"lost,omitempty"`
	Seal string `json:"seal"` // of the rest
}

type head struct {
	Seq  int64  `json:"seq"`
	Seal string `json:"row_seal"`
	At   int64  `json:"at"` // when it was written down, ms UTC
}

type lost struct {
	Chain string `json:"chain"` // "" = the file itself was changed
	head
	Noticed int64 `json:"noticed"` // ms UTC
}

// mostLost bounds the evidence kept.
const mostLost = 100

func (h heads) sealWith(key []byte) string {
	m := hmac.New(sha256.New, key)
	put := func(values ...string) {
		for _, v := range values {
			fmt.Fprintf(m, "%d:%s", len(v), v)
		}
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	put("parawork-audit-heads-1", strconv.Itoa(len(h.Chains)))
	for _, c := range slices.Sorted(maps.Keys(h.Chains)) {
		put(c, number(h.Chains[c].Seq), h.Chains[c].Seal, number(h.Chains[c].At))
	}
	for _, l := range h.Lost {
		put(l.Chain, number(l.Seq), l.Seal, number(l.At), number(l.Noticed))
	}
	return hex.EncodeToString(m.Sum(nil))
}

// readHeads returns what the file holds. known is false when there is no file, genuine when its seal is one of ours.
func readHeads(path string, keys [][]byte) (h heads, known, genuine bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return heads{Chains: map[string]head{}}, false, true, nil
	}
	if err != nil {
		return heads{}, false, false, fmt.Errorf("reading the heads of the audit: %w", err)
	}
	if json.Unmarshal(b, &h) == nil {
		for _, k := range keys {
			genuine = genuine || hmac.Equal([]byte(h.sealWith(k)), []byte(h.Seal))
		}
	}
	if !genuine {
		h = heads{}
	}
	if h.Chains == nil {
		h.Chains = map[string]head{}
	}
	return h, true, genuine, nil
}

// write replaces the file in one step.
func (h heads) write(path string, key []byte) error {
	h.Seal = h.sealWith(key)
	b, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(path, append(b, '\n'), 0o600)
}

// locked runs fn while no other process changes the file.
func locked(path string, fn func() error) error {
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // and with it the lock
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return err
	}
	return fn()
}

// forgetDirty is after how long a chain that has not grown as was said is no longer waited for: what was written was undone.
const forgetDirty = 5 * time.Minute

// Flush writes down how far the chains that grew have come. Run does it as it goes; a program that ends after an Append calls it.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	grown := maps.Clone(l.dirty)
	l.mu.Unlock()
	if l.cfg.Heads == "" || len(grown) == 0 {
		return nil
	}
	keys, err := l.ring(ctx)
	if err != nil {
		return err
	}
	reached := map[string]int64{}
	err = locked(l.cfg.Heads, func() error {
		h, _, genuine, err := readHeads(l.cfg.Heads, keys)
		if err != nil {
			return err
		}
		now := l.cfg.Now().UnixMilli()
		if !genuine {
			l.lose(ctx, &h, lost{Noticed: now}, "the file had been changed by somebody else")
		}
		for chain := range grown {
			seq, seal, err := l.cfg.Store.AuditTail(ctx, chain)
			if err != nil {
				return err
			}
			reached[chain] = seq
			if was, ok := h.Chains[chain]; ok {
				there, err := l.holds(ctx, chain, was, seq)
				if err != nil {
					return err
				}
				if !there {
					l.lose(ctx, &h, lost{Chain: chain, head: was, Noticed: now}, "entries that were there are gone or changed")
				}
			}
			if seq > 0 {
				h.Chains[chain] = head{Seq: seq, Seal: seal, At: now}
			}
		}
		return h.write(l.cfg.Heads, keys[len(keys)-1])
	})
	if err != nil {
		return fmt.Errorf("writing down the heads of the audit: %w", err)
	}
	l.mu.Lock()
	for chain, m := range grown {
		if at := l.dirty[chain]; at == m && (reached[chain] >= m.seq || l.cfg.Now().Sub(m.at) > forgetDirty) {
			delete(l.dirty, chain)
		}
	}
	l.mu.Unlock()
	return nil
}

// holds reports whether a chain that ends at last still has the row that a head names; rows that were dropped for their age count
// as there.
func (l *Log) holds(ctx context.Context, chain string, h head, last int64) (bool, error) {
	seal, err := l.cfg.Store.AuditSeal(ctx, chain, h.Seq)
	if fault.Is(err, fault.NotFound) {
		if last < h.Seq {
			return false, nil
		}
		rows, err := l.cfg.Store.AuditRows(ctx, Query{Chain: chain, Oldest: true, Limit: 1})
		return len(rows) == 1 && rows[0].Seq > h.Seq, err
	}
	return seal == h.Seal, err
}

func (l *Log) lose(ctx context.Context, h *heads, what lost, words string) {
	l.cfg.Log.ErrorContext(ctx, "the audit was tampered with, or an older backup of the database restored: run parawork doctor --audit",
		"chain", what.Chain, "seq", what.Seq, "found", words)
	if len(h.Lost) < mostLost {
		h.Lost = append(h.Lost, what)
	}
}

// Behind returns the chains that end before the entry the file of heads has seen: the database has lost what it knew.
func (l *Log) Behind(ctx context.Context) ([]string, error) {
	if l.cfg.Heads == "" {
		return nil, nil
	}
	keys, err := l.readKeys(ctx)
	if err != nil {
		return nil, err
	}
	h, _, _, err := readHeads(l.cfg.Heads, keys)
	if err != nil {
		return nil, err
	}
	var behind []string
	for _, chain := range slices.Sorted(maps.Keys(h.Chains)) {
		seq, _, err := l.cfg.Store.AuditTail(ctx, chain)
		if err != nil {
			return nil, fmt.Errorf("reading the end of the audit: %w", err)
		}
		if seq < h.Chains[chain].Seq {
			behind = append(behind, chain)
		}
	}
	return behind, nil
}
