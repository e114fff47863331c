package bytelog

import "os"

// WriteBy makes the log write to its segments by write.
func (l *Log) WriteBy(write func(f *os.File, p []byte, off int64) (int, error)) {
	l.disk.writeAt = write
}
