//! What to call a host's own parts that do not say.

/// The name of a type without its module: `MyStrategy` for `app::agent::MyStrategy`.
pub(crate) fn type_name<T: ?Sized>() -> String {
    let full = std::any::type_name::<T>();
    let plain = full.split('<').next().unwrap_or(full);
    plain.rsplit("::").next().unwrap_or(plain).to_owned()
}
