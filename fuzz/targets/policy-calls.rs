//! Calls at the policy component, beside changes of rights and a server that answers anything.

#![no_main]
fuzz::engine!(fuzz::policy_calls::TARGET);
