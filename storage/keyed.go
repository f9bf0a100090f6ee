package storage

import "sync"

// keyed gives each key a lock of its own. The zero value is ready.
type keyed struct {
	mu    sync.Mutex // guards users
	users map[string]*keyedLock
}

type keyedLock struct {
	mu    sync.Mutex
	users int // goroutines that hold it or wait; guarded by keyed.mu
}

// lock takes the lock of key and returns what gives it back.
func (k *keyed) lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.users == nil {
		k.users = map[string]*keyedLock{}
	}
	l := k.users[key]
	if l == nil {
		l = &keyedLock{}
		k.users[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.mu.Lock()
	return func() {
		l.mu.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.users, key)
		}
	}
}
