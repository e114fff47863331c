package browser

import (
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// driver is the person who uses the browser instead of agents. browser.mu guards it.
type driver struct {
	user  string // id; "" = agents use it
	name  string
	since int64
	last  time.Time // of the last input
}

// errTaken refuses somebody while another person drives.
func (d driver) errTaken() error {
	return fault.New(fault.Conflict, "browser_taken", "%s is using the browser now. Wait until the browser is given back, or ask for it.", d.name).With("user_id", d.user).With("name", d.name)
}

// allow refuses an agent, and everybody but the driver, while a person drives.
func (b *browser) allow(userID, sessionID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseIdle()
	if b.driver.user != "" && (sessionID != "" || b.driver.user != userID) {
		return b.driver.errTaken()
	}
	b.used = b.s.cfg.Now()
	return nil
}

// releaseIdle gives the browser back when its driver does nothing. The caller holds mu.
func (b *browser) releaseIdle() {
	if b.driver.user != "" && b.s.cfg.Now().Sub(b.driver.last) > b.s.cfg.DriverIdle {
		b.release("did nothing for a while")
	}
}

// release gives the browser back to agents. The caller holds mu.
func (b *browser) release(why string) {
	b.notice("%s used the browser and %s. The page may have changed: take a snapshot.", b.driver.name, why)
	b.driver = driver{}
	b.view.bump()
}
