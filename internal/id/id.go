// Package id makes the identifiers of stored things: a prefix that says what it is, and 26 characters that sort by creation time and cannot
// be guessed.
package id

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

// alphabet is Crockford's base 32 in lower case: in ASCII order, without i, l, o and u.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// Length is the number of characters after the prefix and its underscore.
const Length = 26

// clock stores the last time used, so that ids made in one process always grow.
type clock struct {
	mu   sync.Mutex
	last uint64 // ms since 1970 shifted left by 12, and a counter below
}

func (c *clock) next(now time.Time) uint64 {
	t := uint64(now.UnixMilli()) << 12
	c.mu.Lock()
	defer c.mu.Unlock()
	if t <= c.last {
		t = c.last + 1
	}
	c.last = t
	return t
}

var ticks clock

// New returns a new id such as "ws_06f3...": prefix, underscore, 60 bits of time and order, 70 random bits. Ids of one
// process grow strictly; those of several processes grow by the millisecond. Safe for concurrent use.
func New(prefix string) string {
	var b [Length]byte
	t := ticks.next(time.Now())
	for i := 11; i >= 0; i-- { // 12 characters hold the 60 low bits: enough until the year 10889
		b[i] = alphabet[t&31]
		t >>= 5
	}
	var r [16]byte
	rand.Read(r[:]) // never fails: it ends the program rather than return weak bytes
	lo := binary.BigEndian.Uint64(r[:8])
	hi := binary.BigEndian.Uint64(r[8:])
	for i := 12; i < 24; i++ {
		b[i] = alphabet[lo&31]
		lo >>= 5
	}
	for i := 24; i < Length; i++ {
		b[i] = alphabet[hi&31]
		hi >>= 5
	}
	return prefix + "_" + string(b[:])
}

// Valid reports whether s is shaped like an id with this prefix. It says nothing about whether the thing exists.
func Valid(prefix, s string) bool {
	if len(s) != len(prefix)+1+Length || s[:len(prefix)] != prefix || s[len(prefix)] != '_' {
		return false
	}
	for i := len(prefix) + 1; i < len(s); i++ {
		c := s[i]
		ok := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' && c != 'i' && c != 'l' && c != 'o' && c != 'u'
		if !ok {
			return false
		}
	}
	return true
}

// UUID returns a random UUID, version 4: for programs that take no other identifiers.
func UUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
