//! [`Remote`]: the hosting service and repository that the URL of a git remote names.

/// A repository at a hosting service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Host name, with the port of HTTP.
    pub(crate) host: String,
    /// Whether the URL is `http:`, without encryption.
    pub(crate) is_plain_http: bool,
    /// Path of the repository, such as `OWNER/NAME` or `GROUP/SUBGROUP/NAME`.
    pub(crate) path: String,
}

/// The kind of a hosting service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forge {
    GitHub,
    GitLab,
    /// Forgejo or Gitea.
    Forgejo,
}

impl Remote {
    /// Parses a URL, or the short form `USER@HOST:PATH` of SSH. `None` for local paths.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let (scheme, authority, path) = if let Some((scheme, rest)) = url.split_once("://") {
            let (authority, path) = rest.split_once('/')?;
            (scheme.to_ascii_lowercase(), authority, path)
        } else {
            let (authority, path) = url.split_once(':')?;
            if authority.contains('/') {
                return None;
            }
            ("ssh".to_owned(), authority, path)
        };
        let is_http = matches!(scheme.as_str(), "http" | "https");
        if !is_http && !matches!(scheme.as_str(), "ssh" | "git+ssh" | "ssh+git") {
            return None;
        }
        let host = authority.rsplit('@').next().unwrap_or(authority);
        // The API does not use the port of SSH.
        let host = match host.rsplit_once(':') {
            Some((name, _)) if !is_http => name,
            _ => host,
        };
        let host = match host.to_ascii_lowercase().as_str() {
            "ssh.github.com" => "github.com".to_owned(),
            "altssh.gitlab.com" => "gitlab.com".to_owned(),
            host => host.to_owned(),
        };
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        let is_complete = path.contains('/') && path.split('/').all(is_plain_name);
        (is_complete && !host.is_empty()).then(|| Self {
            host,
            is_plain_http: scheme == "http",
            path: path.to_owned(),
        })
    }

    /// The kind of the hosting service. `variable` looks up environment variables: `GH_HOST` and `GITLAB_HOST` name
    /// the user's own servers.
    pub(crate) fn forge(&self, variable: &dyn Fn(&str) -> Option<String>) -> Forge {
        let is_named = |name: &str| variable(name).is_some_and(|host| host == self.host);
        if self.host == "github.com" || self.host.starts_with("github.") || is_named("GH_HOST") {
            Forge::GitHub
        } else if self.host == "gitlab.com"
            || self.host.starts_with("gitlab.")
            || is_named("GITLAB_HOST")
        {
            Forge::GitLab
        } else {
            Forge::Forgejo
        }
    }

    /// The owner, and the name of the repository.
    pub(crate) fn owner(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// The page of the service on which the user can create the change request.
    pub(crate) fn page(&self, forge: Forge, base: &str, branch: &str) -> String {
        let scheme = if self.is_plain_http { "http" } else { "https" };
        let (host, path) = (&self.host, &self.path);
        match forge {
            Forge::GitHub => format!("{scheme}://{host}/{path}/compare/{base}...{branch}?expand=1"),
            Forge::GitLab => format!(
                "{scheme}://{host}/{path}/-/merge_requests/new?merge_request[source_branch]={branch}"
            ),
            Forge::Forgejo => format!("{scheme}://{host}/{path}/compare/{base}...{branch}"),
        }
    }
}

/// Whether a part of a path can be put in the path of a request unchanged.
fn is_plain_name(name: &str) -> bool {
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '~');
    !name.is_empty() && name != "." && name != ".." && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::{Forge, Remote};

    #[test]
    fn urls_of_all_forms_name_the_same_repository() {
        for url in [
            "https://github.com/ada/shop.git",
            "https://github.com/ada/shop/",
            "https://ada:secret@github.com/ada/shop",
            "git@github.com:ada/shop.git",
            "ssh://git@github.com/ada/shop.git",
            "ssh://git@ssh.github.com:443/ada/shop.git",
        ] {
            let remote = Remote::parse(url).expect(url);
            assert_eq!(remote.host, "github.com", "{url}");
            assert_eq!(remote.path, "ada/shop", "{url}");
            assert_eq!(remote.forge(&|_| None), Forge::GitHub, "{url}");
            assert!(!remote.is_plain_http);
        }
        let remote = Remote::parse("http://127.0.0.1:3000/ada/shop").expect("a URL");
        assert_eq!(remote.host, "127.0.0.1:3000");
        assert_eq!(remote.forge(&|_| None), Forge::Forgejo);
        let nested = Remote::parse("git@gitlab.com:group/sub/shop.git").expect("a URL");
        assert_eq!(nested.path, "group/sub/shop");
        assert_eq!(nested.forge(&|_| None), Forge::GitLab);
        let own = Remote::parse("git@code.example:ada/shop.git").expect("a URL");
        let variable = |name: &str| (name == "GH_HOST").then(|| "code.example".to_owned());
        assert_eq!(own.forge(&variable), Forge::GitHub);
    }

    #[test]
    fn local_paths_and_odd_paths_name_no_service() {
        for url in [
            "/srv/git/shop.git",
            "../shop",
            "./a:b/c",
            "file:///srv/git/shop.git",
            "https://github.com/shop",
            "https://github.com/ada/../shop",
            "https://github.com/ada/sh op",
            "",
        ] {
            assert_eq!(Remote::parse(url), None, "{url}");
        }
    }
}
