package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// waits are the pauses between attempts, a day in all; after the last a mail is given up.
var waits = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour}

const (
	claimFor  = 5 * time.Minute // nobody else tries a mail meanwhile
	lookAgain = 10 * time.Second
	sweepEach = time.Hour
)

// soon are when the outbox is looked at after Queue was called: its transaction may take a moment to end.
var soon = []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}

// Run sends what is due until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if !s.Enabled() {
		<-ctx.Done()
		return nil
	}
	swept := time.Time{}
	quick := len(soon)
	for ctx.Err() == nil {
		now := s.cfg.Now()
		if now.Sub(swept) >= sweepEach {
			swept = now
			if err := s.cfg.Store.DropMails(ctx, now.Add(-keepFor).UnixMilli()); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("old mails not deleted", "error", err)
			}
		}
		due, next, err := s.cfg.Store.DueMails(ctx, now.UnixMilli(), 20)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("mail outbox not read", "error", err)
		}
		sent := false
		for _, m := range due {
			if ctx.Err() != nil {
				break
			}
			at := s.cfg.Now()
			if mine, err := s.cfg.Store.ClaimMail(ctx, m.ID, at.UnixMilli(), at.Add(claimFor).UnixMilli()); err == nil && mine {
				s.try(ctx, m)
				sent = true
			}
		}
		if sent {
			continue
		}
		wait := lookAgain
		if quick < len(soon) {
			wait = soon[quick]
			quick++
		}
		if next > 0 {
			wait = min(wait, max(time.Duration(next-s.now())*time.Millisecond, 50*time.Millisecond))
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.post:
			quick = 0
		case <-t.C:
		}
		t.Stop()
	}
	return nil
}

// try makes one attempt and stores how it went.
func (s *Service) try(ctx context.Context, m Mail) {
	raw, err := s.cfg.Sealer.Unseal(sealName(m.ID), m.Sealed)
	var c content
	if err == nil {
		err = json.Unmarshal([]byte(raw), &c)
	}
	lost := err != nil // sealed with another key: no attempt will help
	if !lost {
		err = s.send(ctx, m.To, c, m.ID)
	}
	if ctx.Err() != nil && err != nil {
		m.NextAt = s.now() // the next server goes on at once
		s.keep(ctx, m)
		return
	}
	m.Attempts++
	switch {
	case err == nil:
		m.State, m.Error = Sent, ""
	case lost:
		m.State, m.Error = GivenUp, "it cannot be read any more: secret.key is not the one it was sealed with"
	case final(err) || m.Attempts > len(waits):
		m.State, m.Error = GivenUp, wordsOf(err)
	default:
		wait := waits[m.Attempts-1]
		m.Error, m.NextAt = wordsOf(err), s.cfg.Now().Add(wait+time.Duration(rand.Int64N(int64(wait)/10+1))).UnixMilli()
	}
	if m.State != Pending {
		m.Sealed, m.DoneAt = "", s.now()
	}
	if m.Error != "" {
		s.cfg.Log.Warn("mail not sent", "mail_id", m.ID, "kind", m.Kind, "state", m.State, "attempts", m.Attempts, "error", m.Error)
	}
	s.keep(ctx, m)
}

func (s *Service) keep(ctx context.Context, m Mail) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.cfg.Store.UpdateMail(ctx, m); err != nil {
		s.cfg.Log.Warn("mail not stored", "mail_id", m.ID, "error", fmt.Errorf("storing the result of a mail: %w", err))
	}
}
