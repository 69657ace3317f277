//! Integration tests in real time, a module for each subject.

mod etcd;
